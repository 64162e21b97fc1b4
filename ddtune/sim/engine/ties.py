"""Near-ties: positions where two tokens are almost equally likely, so that the last bit decides which is written."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ddtune.sim.engine.vocabulary import dice

SHARE = 0.02
# Where engines of different numerics part: seldom early, and about three prompts of ten within 240 tokens.
LATE = 40
BREAKS = 0.09
MOST = 0.5


def ties(seed: int, length: int, begin: int = 0) -> Iterator[int]:
    """The positions under ``length`` at which the text of ``seed`` has a near-tie: one in fifty."""
    for at in range(begin, length):
        if dice("tie", seed, at) % 1000 < SHARE * 1000:
            yield at


def broken(seed: int, variant: str, length: int) -> int | None:
    """The first near-tie that the numerics of ``variant`` break the other way; None within ``length`` tokens."""
    for at in ties(seed, length, LATE):
        if dice("breaks", seed, variant, at) % 1000 < BREAKS * 1000:
            return at
    return None


def chance(rate: float, running: int) -> float:
    """How often a near-tie breaks the other way from one run to the next, with ``running`` requests in the batch.

    ``rate`` alone; each doubling of the batch adds as much again, to a half at most.
    """
    return min(MOST, rate * (1 + math.log2(max(1, running))))
