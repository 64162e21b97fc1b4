"""Has a running service drifted from what it did when it was judged: a test that may be looked at after every window.

A fixed test that is looked at five times at 5 % raises up to 26 % false alarms. This one (the mixture sequential
probability ratio test with a normal prior, Johari et al. 2017) keeps its level however often it is looked at:

    L_n = sqrt(s2 / (s2 + n t2)) * exp(n^2 t2 (mean - theta0)^2 / (2 s2 (s2 + n t2)))

act once ``L_n >= 1 / alpha``; ``s2`` is the variance of one window mean, ``t2`` the square of the drift that is worth
finding, fixed before. The values must be means over windows, not raw readings: an engine's gauges repeat themselves,
and the level holds for values that do not. :func:`lag_one` says whether the windows are wide enough (under 0.2).

It cannot tell a change of the traffic from one of the engine: accept length halves between English and Chinese prompts,
so a drift of it is told to a person and rolls nothing back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, variance

WINDOW_S = 10.0
LEAST_WINDOWS = 12
MOST_LAG = 0.2
ALPHA = 0.001


@dataclass(frozen=True)
class Drift:
    """The test after ``count`` window means that add up to ``total``.

    ``theta0`` is the mean that was usual, ``s2`` the variance of a window mean, ``t2`` the squared effect in its unit.
    """

    theta0: float
    s2: float
    t2: float
    alpha: float = ALPHA
    count: int = 0
    total: float = 0.0
    peak: float = 1.0

    def add(self, mean: float) -> Drift:
        """The test with one further window mean."""
        more = replace(self, count=self.count + 1, total=self.total + mean)
        return replace(more, peak=max(self.peak, more.likelihood))

    @property
    def mean(self) -> float | None:
        """The mean of all windows since, None before the first."""
        return self.total / self.count if self.count else None

    @property
    def likelihood(self) -> float:
        """How much likelier a drift is than none, by what was seen so far."""
        if not self.count:
            return 1.0
        n, wide = self.count, self.s2 + self.count * self.t2
        exponent = n * n * self.t2 * (self.total / n - self.theta0) ** 2 / (2 * self.s2 * wide)
        return math.inf if exponent > 700 else math.sqrt(self.s2 / wide) * math.exp(exponent)

    @property
    def drifted(self) -> bool:
        """Whether some window so far was enough to say so; once said, it stays said."""
        return self.peak >= 1 / self.alpha

    @property
    def half_width(self) -> float | None:
        """Half of the interval around ``mean`` that covers the true mean at every moment, but for ``alpha``."""
        if not self.count:
            return None
        n, wide = self.count, self.s2 + self.count * self.t2
        return math.sqrt(self.s2 * wide / (n * n * self.t2) * (2 * math.log(1 / self.alpha) + math.log(wide / self.s2)))


def usual(means: Sequence[float], effect: float, alpha: float = ALPHA) -> Drift | None:
    """The test that begins with what was usual over ``means``; ``effect`` is the share of their mean worth finding.

    None with fewer than twelve windows, or where they hang together too much to count as so many. The variance is
    taken a half larger than it was seen: twelve windows do not know it better.
    """
    if len(means) < LEAST_WINDOWS or abs(lag_one(means) or 0.0) > MOST_LAG + 2 / math.sqrt(len(means)):
        return None
    middle = fmean(means)
    spread = 1.5 * variance(means) + (0.001 * middle) ** 2
    return Drift(middle, spread, (effect * middle) ** 2, alpha) if middle else None


def windows(readings: Iterable[tuple[float, float | None]], width_s: float = WINDOW_S) -> list[float]:
    """Means of ``(seconds, value)`` readings over whole windows in order; a window without a value is left out."""
    found: dict[int, list[float]] = {}
    last = None
    for at, value in readings:
        last = int(at // width_s)
        if value is not None:
            found.setdefault(last, []).append(value)
    return [fmean(values) for number, values in sorted(found.items()) if number != last]


def lag_one(means: Sequence[float]) -> float | None:
    """The correlation of each value with the next, None where that says nothing."""
    if len(means) < 3:
        return None
    middle = fmean(means)
    square = sum((one - middle) ** 2 for one in means)
    if not square:
        return 0.0
    return sum((a - middle) * (b - middle) for a, b in pairwise(means)) / square
