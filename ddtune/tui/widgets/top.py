"""The lines that are always on top."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from ddtune.tui import words
from ddtune.tui.paint_status import banner, status_line
from ddtune.tui.view import View
from ddtune.tui.widgets.panel import Panel


class Top(Vertical):
    """The status line, and under it the banner while there is something to say."""

    def compose(self) -> ComposeResult:
        yield Panel(_status, id="status", focusable=False)
        yield Panel(_banner, id="banner", focusable=False)

    def show(self, view: View) -> None:
        """Show this moment."""
        loud = self.query_one("#banner", Panel)
        loud.display = banner(view, 80) is not None
        for panel in self.query(Panel):
            panel.show(view)


def _status(view: View, width: int, _height: int) -> list[Content]:
    return [status_line(view, width)]


def _banner(view: View, width: int, _height: int) -> list[Content]:
    return [banner(view, width) or words.line("")]
