"""Seconds of each phase, and how many of them were ddtune's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

START_PHASES = ("weights", "graphs", "warmup", "ready")


class Stopwatch:
    """Measures phases by name; ``excluded`` marks waiting that the engine or the operator's limits cause.

    Nested exclusions count once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._phases: dict[str, float] = {}
        self._start: dict[str, float] = {}
        self._excluded = 0.0
        self._depth = 0

    @contextmanager
    def phase(self, name: str, *, own: bool = True) -> Iterator[None]:
        """Add the block's seconds to a phase; ``own=False`` keeps them out of ``own_s``."""
        began = self._clock()
        try:
            if own:
                yield
            else:
                with self.excluded():
                    yield
        finally:
            self._phases[name] = self._phases.get(name, 0.0) + self._clock() - began

    @contextmanager
    def excluded(self) -> Iterator[None]:
        """Keep the block's seconds out of ``own_s``."""
        began = self._clock()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._excluded += self._clock() - began

    def start_phase(self, name: str, seconds: float) -> None:
        """Add seconds to one phase of the start."""
        self._start[name] = self._start.get(name, 0.0) + seconds

    @property
    def elapsed_s(self) -> float:
        """Seconds since the stopwatch was made."""
        return self._clock() - self._began

    @property
    def own_s(self) -> float:
        """Elapsed seconds without the excluded ones."""
        return max(0.0, self.elapsed_s - self._excluded)

    def report(self) -> dict[str, Any]:
        """``phases`` of the JSON: real seconds, with the start broken down."""
        phases: dict[str, Any] = {name: round(seconds, 3) for name, seconds in self._phases.items() if name != "start"}
        if self._start or "start" in self._phases:
            phases["start"] = {name: round(self._start[name], 3) for name in START_PHASES if name in self._start}
        return phases
