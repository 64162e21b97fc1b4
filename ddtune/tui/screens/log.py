"""The log in full: follow or stand still, filtered by text and severity."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input

from ddtune.engine.model import LogLine
from ddtune.tui import paint_log, words
from ddtune.tui.desk import Desk
from ddtune.tui.screens.base import SubScreen
from ddtune.tui.view import View
from ddtune.tui.widgets.panel import Panel


class LogScreen(SubScreen):
    """Lines as they come; going back in them stops following."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", id="filter", tooltip="Only lines with a text; `error` finds errors"),
        Binding("f", "follow", "Follow", id="follow", tooltip="Follow the newest line again"),
        Binding("p", "pause", "Pause", id="pause-log", tooltip="Stop following, or follow again"),
        Binding("e", "severity", "Severity", id="severity", tooltip="All lines, warnings and errors, errors"),
        Binding("w", "whole", "Whole lines", id="whole-lines", show=False, tooltip="Fold long lines, or cut them"),
        Binding("escape", "clear", "Clear", id="clear-filter", show=False, tooltip="No filter; then back"),
        Binding("j,down", "move(-1)", "Down", show=False),
        Binding("k,up", "move(1)", "Up", show=False),
        Binding("pagedown,space", "page(-1)", "Page down", show=False),
        Binding("pageup", "page(1)", "Page up", show=False),
        Binding("g,home", "oldest", "Oldest", show=False),
        Binding("G,end", "follow", "Newest", show=False),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._wanted = ""
        self._severity = "all"
        self._whole_lines = False
        self._last: LogLine | None = None

    def body(self) -> ComposeResult:
        yield Panel(self._paint, id="whole-log")
        yield Input(placeholder="text, or error, or warning", id="filter", compact=True)

    def on_mount(self) -> None:
        """The lines have the keys; the filter only while it is open."""
        super().on_mount()
        self.query_one("#whole-log").focus()
        self.query_one("#filter").display = False

    def show(self, view: View) -> None:
        """Paint the lines; the title says what is seen."""
        panel = self.query_one("#whole-log", Panel)
        found = len(self._found(view))
        kept = f"{found} of {len(view.snapshot.log)} lines"
        wanted = f" with {self._wanted!r}" if self._wanted else ""
        wanted += "" if self._severity == "all" else f" · {self._severity} only"
        mode = "follow" if self._last is None else "paused"
        panel.border_title = Content(f"Log · {words.word(view.snapshot.service.unit)} · {mode} · {kept}{wanted}")
        panel.show(view)

    def _paint(self, view: View, width: int, height: int) -> list[Content]:
        found = self._found(view)
        # A journal that may not be read looks like one that is silent.
        why = paint_log.unreadable(view.snapshot.unreadable, width)[:height]
        room = height - len(why)
        if not found and view.snapshot.log:
            return [*why, words.line((" no such line among those that are kept", words.MUTED))][:height]
        return [*why, *paint_log.lines(found, width, room, self._back(found, room), whole=self._whole_lines)]

    def _found(self, view: View) -> list[LogLine]:
        return paint_log.matching(view.snapshot.log, self._wanted, self._severity)

    def _back(self, found: list[LogLine], height: int) -> int:
        """How many lines lie below the last one that is seen; it stays in its place while others come."""
        if self._last is None:
            return 0
        return max(0, min(paint_log.below(found, self._last), len(found) - height))

    def action_move(self, lines: int) -> None:
        """Go back in time, or forward again."""
        found = self._found(self.view)
        height = self.query_one("#whole-log", Panel).content_size.height
        back = max(0, min(self._back(found, height) + lines, len(found) - height))
        self._last = found[-1 - back] if back > 0 else None
        self.refresh_view()

    def action_page(self, pages: int) -> None:
        """A screenful at once."""
        self.action_move(pages * max(1, self.query_one("#whole-log", Panel).content_size.height - 1))

    def action_oldest(self) -> None:
        """The oldest line that is known."""
        self.action_move(len(self.view.snapshot.log))

    def action_follow(self) -> None:
        """The newest line, and the ones that come."""
        self._last = None
        self.refresh_view()

    def action_pause(self) -> None:
        """Stand still, or follow again."""
        found = self._found(self.view)
        self._last = found[-1] if self._last is None and found else None
        self.refresh_view()

    def action_severity(self) -> None:
        """The next step of the severity filter."""
        steps = list(paint_log.SEVERITIES)
        self._severity = steps[(steps.index(self._severity) + 1) % len(steps)]
        self.refresh_view()

    def action_whole(self) -> None:
        """Fold long lines, or cut them again."""
        self._whole_lines = not self._whole_lines
        self.refresh_view()

    def action_filter(self) -> None:
        """Ask for a text."""
        entry = self.query_one("#filter", Input)
        entry.display = True
        entry.focus()

    async def action_clear(self) -> None:
        """Close the filter; without one go back."""
        if not self._wanted and not self.query_one("#filter").display:
            await self.run_action("app.back")
            return
        self._wanted = ""
        self.query_one("#filter", Input).value = ""
        self._close_filter()

    @on(Input.Changed, "#filter")
    def filtered(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self._wanted = event.value
        self.refresh_view()

    @on(Input.Submitted, "#filter")
    def _close_filter(self) -> None:
        self.query_one("#filter").display = bool(self._wanted)
        self.query_one("#whole-log").focus()
        self.refresh_view()
