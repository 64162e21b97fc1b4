"""What may run, and how each stands on this host."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ddtune.tui import paint_profiles, words
from ddtune.tui.catalogue import Entry, entries
from ddtune.tui.desk import Desk, DeskError
from ddtune.tui.screens.base import SubScreen, answer
from ddtune.tui.screens.plan import PlanScreen


class ProfilesScreen(SubScreen):
    """A list; enter plans a switch to the marked one, which touches nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "plan", "Plan a switch", id="plan-switch", tooltip="What a switch would do; touches nothing"),
        Binding("j", "cursor_down", "Down", show=False),
        Binding("k", "cursor_up", "Up", show=False),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._entries: tuple[Entry, ...] = entries(desk.profiles, None, None, 0.0)

    def body(self) -> ComposeResult:
        yield Static(paint_profiles.HEAD, id="profile-head", markup=False)
        profiles = OptionList(id="profile-list", markup=False)
        profiles.border_title = Content(f"Profiles · {paint_profiles.LEGEND}")
        yield profiles
        yield Static("", id="profile-detail", markup=False)

    def on_mount(self) -> None:
        """The list at once, the standings as soon as the host says them."""
        super().on_mount()
        self._fill()
        self.query_one(OptionList).focus()
        self.query_one("#profile-list").border_subtitle = "reading how they stand here …"
        self._read()

    def _fill(self) -> None:
        options = self.query_one(OptionList)
        marked = options.highlighted
        running = self.view.snapshot.service.profile
        # The frame and a scrollbar take their part.
        width = max(20, self.size.width - 3)
        rows = [words.fit(paint_profiles.row(entry, running), width) for entry in self._entries]
        options.clear_options()
        options.add_options(Option(row, id=entry.profile.name) for row, entry in zip(rows, self._entries, strict=True))
        if self._entries:
            options.highlighted = marked or 0
            self._tell(self._entries[options.highlighted])

    @work(group="host", exit_on_error=False)
    async def _read(self) -> None:
        options = self.query_one("#profile-list")
        try:
            self._entries = await answer(self.desk.catalogue())
        except DeskError as error:
            options.border_subtitle = Content(words.safe(error))
            return
        options.border_subtitle = Content(f"read at {words.clock(self.view.snapshot.at)}")
        self._fill()

    @on(OptionList.OptionHighlighted)
    def detail(self, event: OptionList.OptionHighlighted) -> None:
        """Say what the marked one is."""
        self._tell(self._entries[event.option_index])

    def on_resize(self) -> None:
        """Fold the lines anew."""
        self.call_after_refresh(self._fill)

    def _tell(self, entry: Entry) -> None:
        lines = paint_profiles.detail(entry, max(20, self.size.width - 4))
        self.query_one("#profile-detail", Static).update(Content("\n").join(lines))

    @on(OptionList.OptionSelected)
    def plan(self, event: OptionList.OptionSelected) -> None:
        """Plan a switch to the chosen one."""
        entry = self._entries[event.option_index]
        self.app.push_screen(PlanScreen(self.desk, entry.profile.name, entry.standing))

    def action_plan(self) -> None:
        """The list's own enter, named for the help."""
        self.query_one(OptionList).action_select()

    def action_cursor_down(self) -> None:
        """The next profile."""
        self.query_one(OptionList).action_cursor_down()

    def action_cursor_up(self) -> None:
        """The profile before."""
        self.query_one(OptionList).action_cursor_up()
