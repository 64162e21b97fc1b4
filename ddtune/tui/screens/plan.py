"""What a switch would do. Nothing is touched here."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content

from ddtune.rollout.model import Plan
from ddtune.tui import paint_plan, words
from ddtune.tui.desk import Desk, DeskError
from ddtune.tui.messages import Confirmed
from ddtune.tui.screens.base import SubScreen, answer
from ddtune.tui.screens.confirm import ConfirmScreen
from ddtune.tui.widgets.page import Page

FRESH_S = 60.0


class PlanScreen(SubScreen):
    """Reads the host, shows the plan, and leads on to the confirmation where the plan allows it."""

    WRITES = frozenset(("go_on", "force"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go_on", "Go on", id="go-on", tooltip="To the confirmation; Cancel is focused there"),
        Binding("f", "force", "Force", id="force", tooltip="Plan it against what is known to be bad"),
        Binding("r", "read_again", "Read again", id="read-again"),
    ]

    def __init__(self, desk: Desk, profile: str, standing: str | None) -> None:
        super().__init__(desk)
        self._profile, self._standing = profile, standing
        self._plan: Plan | None = None
        self._planned_at = 0.0
        self._force = False

    def body(self) -> ComposeResult:
        page = Page(id="plan")
        page.border_title = Content(f"Plan · {words.safe(self._profile)}")
        yield page

    def on_mount(self) -> None:
        """Plan at once."""
        super().on_mount()
        self.query_one(Page).focus()
        self.action_read_again()

    def on_resize(self) -> None:
        """Fold the lines anew."""
        self.call_after_refresh(self._write)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A refused plan leads nowhere but back, or to force where force would help."""
        plan = self._plan
        if action == "go_on" and (plan is None or plan.refused is not None):
            return False
        if action == "force" and (plan is None or not paint_plan.forceable(plan)):
            return False
        return super().check_action(action, parameters)

    def action_read_again(self) -> None:
        """Read the host and plan anew."""
        self._plan = None
        self.query_one(Page).write([words.line((" Reading the host; nothing is touched …", words.MUTED))])
        self.refresh_bindings()
        self._read()

    def action_force(self) -> None:
        """Plan it against what is known to be bad."""
        self._force = True
        self.action_read_again()

    def action_go_on(self) -> None:
        """Ask for the confirmation; an old plan is made anew first."""
        plan = self._plan
        if plan is None:
            return
        if time.monotonic() - self._planned_at > FRESH_S:
            self.notify("The plan was over a minute old: the host is read again.", markup=False)
            self.action_read_again()
            return
        self.app.push_screen(ConfirmScreen(self.desk, plan, forced=self._force), self._answered)

    def _answered(self, confirmed: bool | None) -> None:
        if confirmed and self._plan is not None:
            self.post_message(Confirmed(self._plan))

    @work(group="plan", exclusive=True, exit_on_error=False)
    async def _read(self) -> None:
        try:
            plan = await answer(self.desk.plan("switch", self._profile, force=self._force))
        except DeskError as error:
            width = self.query_one(Page).line_width
            self.query_one(Page).write(words.folded("refused", words.safe(error), width, words.BAD))
            return
        self._plan, self._planned_at = plan, time.monotonic()
        self._write()
        self.refresh_bindings()

    def _write(self) -> None:
        if self._plan is not None:
            page = self.query_one(Page)
            page.write(paint_plan.lines(self._plan, self._standing, self._force, page.line_width))
