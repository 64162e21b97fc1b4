"""How often the screen is painted: at once after a rest, then no more often than eyes need, and at least to age."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from textual.app import App

from ddtune.tui.messages import Moved

FRAME_S = 0.45
"""The least time between two paintings that nobody's key asked for."""
REDRAW_S = 1.0
"""The longest, since ages grow when nothing comes."""


class Frames:
    """``moved`` may be called from any thread, the rest in the app's loop."""

    def __init__(self, app: App[None], paint: Callable[[], None]) -> None:
        self._app = app
        self._paint = paint
        self._waiting = False
        self._painted = float("-inf")

    def start(self) -> None:
        """Begin to let the screen age."""
        self._app.set_interval(REDRAW_S, self._tick)

    def moved(self) -> None:
        """There is something new: at most one message waits, however long the terminal stalls."""
        if not self._waiting:
            self._waiting = True
            with suppress(RuntimeError):
                self._app.post_message(Moved())

    def arrived(self) -> None:
        """The message came: paint now, or as soon as a frame is due."""
        left = self._painted + FRAME_S - time.monotonic()
        if left > 0:
            asyncio.get_running_loop().call_later(left, self._due)
        else:
            self._due()

    def painted(self) -> None:
        """The screen was painted, for whatever reason."""
        self._painted = time.monotonic()

    def _due(self) -> None:
        self._waiting = False
        self._paint_on()

    def _tick(self) -> None:
        if time.monotonic() - self._painted >= REDRAW_S:
            self._paint_on()

    def _paint_on(self) -> None:
        # An app that ends takes its screens apart.
        if self._app.is_running:
            self._paint()
