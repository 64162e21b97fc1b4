"""The series of a recording: right at every place of it, also after going back."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from ddtune.live.series import WINDOWS_S, Series
from ddtune.live.snapshot import Snapshot


class Past:
    """Keeps what was passed, without its log, and fills the series anew where the player went back."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self._passed: list[Snapshot] = []
        self._at = float("-inf")

    def take(self, one: Snapshot) -> None:
        """A picture that the player passes; one that it passed before is known."""
        if not self._passed or one.at > self._passed[-1].at:
            self._passed.append(replace(one, log=(), notes=()))
        if one.at > self._at:
            self._at = one.at
            self._series.take(one)

    def moved(self, at: float) -> None:
        """The player stands at ``at``, seconds since the epoch; what comes later is not known there."""
        if at >= self._at:
            return
        end = bisect_right(self._passed, at, key=lambda one: one.at)
        first = bisect_right(self._passed, at - WINDOWS_S[-1], key=lambda one: one.at)
        self._series.clear()
        for one in self._passed[first:end]:
            self._series.take(one)
        self._at = at
