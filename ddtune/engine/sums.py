"""Sums of what an engine says: numbers of any size, and a sum that is no number is not available."""

from __future__ import annotations

import math
from collections.abc import Iterable


def total(values: Iterable[float]) -> float | None:
    """The sum; None of nothing, and where it is too large to be one."""
    found = list(values)
    try:
        return math.fsum(found) if found else None
    except OverflowError:
        return None


def mean(values: Iterable[float]) -> float | None:
    """The mean; None where there is no sum."""
    found = list(values)
    sum_of = total(found)
    return None if sum_of is None else sum_of / len(found)


def whole(value: float | None) -> int | None:
    """The nearest whole number."""
    return None if value is None else round(value)
