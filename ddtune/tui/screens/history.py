"""What happened on the host and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual import work
from textual.app import ComposeResult
from textual.content import Content

from ddtune.tui import paint_events
from ddtune.tui.desk import Desk, DeskError
from ddtune.tui.screens.base import SubScreen, answer
from ddtune.tui.view import View
from ddtune.tui.widgets.page import Page


class HistoryScreen(SubScreen):
    """The newest lines at once as the collector read them; all of them as soon as the host hands them over."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._older: tuple[Mapping[str, Any], ...] = ()
        self._shown: list[Content] = []

    def body(self) -> ComposeResult:
        page = Page(id="history")
        page.border_title = "History and incidents, the newest first"
        yield page

    def on_mount(self) -> None:
        """Ask for what is older."""
        super().on_mount()
        self.query_one(Page).focus()
        self._read()

    def show(self, view: View) -> None:
        """Write the page when something was added."""
        page = self.query_one(Page)
        recent = view.snapshot.history
        known = [one for one in self._older if one not in recent]
        lines = paint_events.history([*known, *recent], view.snapshot.incidents, page.line_width)
        if lines != self._shown:
            self._shown = lines
            page.write(lines)

    @work(group="host", exit_on_error=False)
    async def _read(self) -> None:
        try:
            self._older = (await answer(self.desk.state())).history
        except DeskError as error:
            # A viewer without the right to ask still has the newest lines.
            self.query_one(Page).border_subtitle = Content(f"only the newest: {error}")
            return
        self.refresh_view()
