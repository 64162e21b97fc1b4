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

    def __init__(self) -> None:
        super().__init__()
        self._status = Panel(_status, id="status", focusable=False)
        self._banner = Panel(_banner, id="banner", focusable=False)

    def compose(self) -> ComposeResult:
        yield self._status
        yield self._banner

    def show(self, view: View) -> None:
        """Show this moment."""
        self._banner.display = banner(view, 80) is not None
        self._status.show(view)
        self._banner.show(view)


def _status(view: View, width: int, _height: int) -> list[Content]:
    return [status_line(view, width)]


def _banner(view: View, width: int, _height: int) -> list[Content]:
    return [banner(view, width) or words.line("")]
