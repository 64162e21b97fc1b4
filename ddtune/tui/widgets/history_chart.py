"""A chart of the last minutes, painted no more often than its columns can tell."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content

from ddtune.live.series import Window
from ddtune.tui.view import View
from ddtune.tui.widgets.panel import Panel

Drawer = Callable[[View, Window, int, int], list[Content]]

DEFAULT_S = 300
SLOWEST_S = 5.0
OF_ITS_TIME = 1 / 150
"""A painting lasts for less than the time of one column."""


class HistoryChart(Panel):
    """Draws one window of the series of a moment. ``length_s`` is one of ``WINDOWS_S``."""

    def __init__(self, draw: Drawer, title: str = "", *, id: str, focusable: bool = True) -> None:  # noqa: A002 (Textual's own name)
        super().__init__(self._window, title, id=id, focusable=focusable)
        self._draw = draw
        self.length_s = DEFAULT_S
        self._shown: tuple[object, ...] = ()

    def show(self, view: View) -> None:
        """Paint this moment, unless the last painting still tells the same."""
        at = view.snapshot.at
        due = min(SLOWEST_S, max(1.0, self.length_s * OF_ITS_TIME))
        # Also when a first reading, another mark or another size is there. A recording may be anywhere next.
        slot = at if view.replay else at // due
        now = (self.content_size, self.length_s, slot, view.series.version, view.paused)
        if now != self._shown:
            self._shown = now
            super().show(view)

    def zoom(self, length_s: int) -> None:
        """Show another window."""
        self.length_s = length_s
        if self._moment is not None:
            self.show(self._moment)

    def _window(self, view: View, width: int, height: int) -> list[Content]:
        return self._draw(view, view.series.window(self.length_s, view.snapshot.at), width, height)
