"""Exact tails and bounds of small counts: what a number of answers can and cannot exclude."""

from __future__ import annotations

from math import comb, log


def at_least(hits: int, of: int, share: float) -> float:
    """The chance of ``hits`` or more among ``of`` independent answers that each have it with ``share``."""
    return sum(comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(hits, of + 1))


def allowed(of: int, share: float, alpha: float) -> int:
    """The most hits among ``of`` that are no sign against ``share``: more come with a chance under ``alpha``."""
    return next(hits for hits in range(of + 1) if hits == of or at_least(hits + 1, of, share) < alpha)


def excluded(of: int, confidence: float = 0.95) -> float:
    """The share of bad answers that ``of`` good ones and no bad one exclude: 3 of 100, about 3 divided by ``of``."""
    return 1 - (1 - confidence) ** (1 / of) if of else 1.0


def needed(share: float, confidence: float = 0.95) -> int:
    """How many good answers exclude ``share`` of bad ones: 59 for 5 %, 149 for 2 %."""
    return int(-(-log(1 - confidence) // log(1 - share)))
