"""Exact tails of small counts: how many bad answers are still no sign."""

from __future__ import annotations

from math import comb


def at_least(hits: int, of: int, share: float) -> float:
    """The chance of ``hits`` or more among ``of`` independent answers that each have it with ``share``."""
    return sum(comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(hits, of + 1))


def allowed(of: int, share: float, alpha: float) -> int:
    """The most hits among ``of`` that are no sign against ``share``: more come with a chance under ``alpha``."""
    return next(hits for hits in range(of + 1) if hits == of or at_least(hits + 1, of, share) < alpha)
