"""What a start takes on this host, learned from its history. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LAST = 3


@dataclass(frozen=True)
class Downtime:
    """Seconds from the engine's stop to a checked generation.

    ``own`` is False where only other profiles' are known, or those of another build of the engine: such a start is a
    cold one, which compiles kernels for shapes that this host has not run yet.
    """

    seconds: tuple[float, ...]
    own: bool

    @property
    def typical_s(self) -> float:
        """The middle one of the last."""
        return statistics.median(self.seconds)

    @property
    def text(self) -> str:
        """What it rests on, in a few words."""
        least, most = min(self.seconds), max(self.seconds)
        spread = f"{least:.0f} s" if round(least) == round(most) else f"{least:.0f} to {most:.0f} s"
        last = f"{len(self.seconds)} starts" if len(self.seconds) > 1 else "start"
        if self.own:
            return f"warm, the last {last}: {spread}"
        return f"cold, its first start on this engine may compile for minutes; the last {last} of others: {spread}"


def downtime(
    history: Sequence[Mapping[str, Any]],
    profile: str | None,
    envelope: Sequence[Mapping[str, Any]] = (),
    build: str | None = None,
) -> Downtime | None:
    """Of the last starts of a profile on this ``build``, else of any; None where no start is known.

    ``history`` has the oldest first; ``envelope`` tells of some operations on which build they were.
    """
    elsewhere = {one.get("op") for one in envelope if one.get("build") not in (None, build)} if build else set()
    starts = [(*one, line.get("op") in elsewhere) for line in history for one in _starts(line)]
    own = [seconds for name, seconds, other in starts if name == profile and profile is not None and not other]
    known = own or [seconds for _, seconds, _ in starts]
    return Downtime(tuple(known[-LAST:]), bool(own)) if known else None


def _starts(line: Mapping[str, Any]) -> list[tuple[str | None, float]]:
    """The starts that one end line tells of: the trial's, and stable's after a rollback."""
    times = line.get("times")
    if not isinstance(times, Mapping) or not line.get("outcome"):
        return []
    spans = (("to", "swapped", "ready"), ("from", "rollback_begun", "serving"))
    found: list[tuple[str | None, float]] = []
    for side, begin, end in spans:
        first, last = times.get(begin), times.get(end)
        if isinstance(first, int | float) and isinstance(last, int | float) and last > first:
            name = (line.get(side) or {}).get("profile")
            found.append((name if isinstance(name, str) else None, float(last - first)))
    return found
