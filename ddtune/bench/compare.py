"""Two arms of one load, compared prompt by prompt. Pure.

An arm is one run: a fresh server, the same prompts in the same order, the same warm-up (n-gram speculation learns from
what it has answered). Prompts within an arm share that server, so their spread says nothing about what another fresh
server of the same profile would do: an effect counts only where it leaves behind what two such servers differ by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

LEAST_PAIRS = 5
BETWEEN_SERVERS = 0.20
"""What two fresh servers of one profile may differ by where nobody has measured it.

Two of SGLang 0.5.17 with n-gram speculation on one H200, asked the same in the same order, differed by 16.5 %
(docs/gpu-run.md): what such a server has answered is what it drafts from.
"""

# Two-sided 95 % of Student's t by degrees of freedom; between two entries the larger holds.
_T95 = {4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 11: 2.201, 14: 2.145, 19: 2.093, 29: 2.045}

Word = Literal["better", "worse", "not resolved"]


@dataclass(frozen=True)
class Compared:
    """``ratio`` is the second arm's speed over the first's with its 95 % interval; None with too few pairs."""

    word: Word
    reason: str
    pairs: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


def compare(
    first: Mapping[str, float], second: Mapping[str, float], between_servers: float = BETWEEN_SERVERS
) -> Compared:
    """Whether ``second`` is faster than ``first``: tokens per second by prompt, of which those in both count.

    ``between_servers`` is the relative difference that two fresh servers of one profile show.
    """
    ratios = [math.log(second[name] / first[name]) for name in first if second.get(name, 0.0) > 0 and first[name] > 0]
    if len(ratios) < LEAST_PAIRS:
        return Compared(
            "not resolved", f"{len(ratios)} prompts are in both arms, {LEAST_PAIRS} are needed", len(ratios)
        )
    middle = fmean(ratios)
    half = _t95(len(ratios) - 1) * stdev(ratios) / math.sqrt(len(ratios))
    ratio, low, high = (math.exp(value) for value in (middle, middle - half, middle + half))
    return judged(ratio, low, high, len(ratios), between_servers)


def judged(ratio: float, low: float, high: float, pairs: int, between_servers: float = BETWEEN_SERVERS) -> Compared:
    """The verdict on a ratio with its interval over ``pairs`` prompts."""
    said = f"{ratio - 1:+.1%} ({low - 1:+.1%} to {high - 1:+.1%}, {pairs} prompts)"
    if low > 1 + between_servers:
        return Compared("better", said, pairs, ratio, low, high)
    if high < 1 / (1 + between_servers):
        return Compared("worse", said, pairs, ratio, low, high)
    reason = f"{said}; two fresh servers of one profile may differ by {between_servers:.0%}"
    return Compared("not resolved", reason, pairs, ratio, low, high)


def _t95(freedom: int) -> float:
    return _T95[max(known for known in _T95 if known <= freedom)]
