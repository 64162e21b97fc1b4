"""The engine's own time, which runs ``speed`` times as fast as the machine's."""

from __future__ import annotations

import time


class Clock:
    """Own seconds since the process began."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self._zero = time.monotonic()

    def now(self) -> float:
        """Own seconds since the start."""
        return (time.monotonic() - self._zero) * self.speed

    def real(self, own_s: float) -> float:
        """Real seconds that ``own_s`` own seconds take."""
        return own_s / self.speed
