"""Has a number of a running service drifted from what was usual: a test that may be looked at after every window.

A fixed test that is looked at five times at 5 % raises up to 26 % false alarms. A mixture sequential probability ratio
test (normal prior, Johari et al. 2017) keeps its level however often it is looked at, where mean ``theta0`` and
variance ``s2`` of a window are known. Here both are estimated from the first windows, and with estimates in their place
it speaks in every other sound service within some thousand windows. So this is the same test of what does not depend on
them: two samples, right Haar priors on mean and spread (Gönen et al. 2005; that it may be stopped at will: Hendriksen,
de Heide, Grünwald 2021). With ``m`` usual windows and ``n`` since, ``k = m n / (m + n)``, ``f = m + n - 2`` and ``t``
the two-sample statistic of Student:

    L_n = (1 + k g)^(-1/2) * ((1 + t^2 / f) / (1 + t^2 / (f (1 + k g))))^((f + 1) / 2)

act once ``L_n >= 1 / alpha``. ``g`` is the square of the drift that is worth finding, in standard deviations of a
window. With many usual windows it becomes Johari's.

The values must be means over windows, not raw readings: an engine's gauges repeat themselves, and the level holds for
values that do not. :class:`Stream` makes windows wide enough (lag-one correlation up to 0.2, for which the variance is
taken half as large again). A mean over days of health would hide what begins then, so a test begins every ``STEP``
windows and ends after ``EPISODE``, all six of an episode at a sixth of the level: at most one of 10,000 sound episodes
raises an alarm, which at 10 s a window is one in 138 days. A drift by three standard deviations of a window is found
after about 15 windows, by two after about 30, by one after about 400 and often not at all, by half of one not.

``Signs`` asks the same of signs that should hardly ever come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import TypeVar

T = TypeVar("T")

WINDOW_S = 10.0
LEAST_READINGS = 3
LEAST_WINDOWS = 40
MOST_WINDOWS = 32 * LEAST_WINDOWS
MOST_LAG = 0.1
ALPHA = 0.0001
EPISODE, STEP = 120, 20
LEAST_SINCE = 3
EFFECT = 1.0
# Forty windows that seem to hang together by 0.1 may do so by 0.2, and their mean then varies half as much again.
HANG = 1.5
RARE = 0.02
TOO_OFTEN = (0.05, 0.1, 0.2, 0.4, 0.8)
# Values are read to three digits.
ROUNDING = 0.001


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared distances from the mean of some values."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, values: Sequence[float]) -> Moments:
        """Those of ``values``."""
        found = cls()
        for value in values:
            found = found.add(value)
        return found

    def add(self, value: float) -> Moments:
        """Those of one value more."""
        count, off = self.count + 1, value - self.mean
        mean = self.mean + off / count
        return Moments(count, mean, self.squares + off * (value - mean))


@dataclass(frozen=True)
class Drift:
    """The test of the windows ``since`` against the ``usual`` ones; ``effect`` is in standard deviations of one."""

    usual: Moments
    since: Moments = Moments()
    effect: float = EFFECT
    alpha: float = ALPHA * STEP / EPISODE
    peak: float = 1.0

    def add(self, mean: float) -> Drift:
        """The test with one further window mean."""
        more = replace(self, since=self.since.add(mean))
        return replace(more, peak=max(self.peak, more.likelihood))

    @property
    def likelihood(self) -> float:
        """How much likelier a drift is than none, by what was seen so far."""
        before, since = self.usual, self.since
        freedom = before.count + since.count - 2
        if not since.count or freedom < 1:
            return 1.0
        spread = HANG * (before.squares + since.squares) / freedom + (ROUNDING * before.mean) ** 2
        together = before.count * since.count / (before.count + since.count)
        square = together * (since.mean - before.mean) ** 2 / spread if spread else 0.0
        wide = 1 + together * self.effect**2
        exponent = math.log1p(square / freedom) - math.log1p(square / (freedom * wide))
        return math.exp(min(700.0, (freedom + 1) / 2 * exponent - math.log(wide) / 2))

    @property
    def drifted(self) -> bool:
        """Whether some window so far was enough to say so; once said, it stays said."""
        return self.peak >= 1 / self.alpha


@dataclass(frozen=True)
class Windows:
    """Readings on their way to the mean of a window: of ``width_s`` seconds and more, and a few readings at least."""

    width_s: float = WINDOW_S
    begun_s: float | None = None
    values: tuple[float, ...] = ()

    def add(self, at_s: float, value: float) -> tuple[Windows, float | None]:
        """With one reading more, and the mean of the window that it ended, None where it ended none."""
        if self.begun_s is None or not 0 <= at_s - self.begun_s < self.width_s:
            mean = fmean(self.values) if len(self.values) >= LEAST_READINGS else None
            return Windows(self.width_s, at_s, (value,)), mean
        return replace(self, values=(*self.values, value)), None


@dataclass(frozen=True)
class Stream:
    """One number over time: first what is usual is learnt, then each further window is tested against it.

    ``learnt`` are the window means until there are enough, ``merged`` how many of them make one of the test's, so that
    these hang together no more than the level allows. What hangs together over any width is learnt again. ``count`` are
    the windows that were tested, ``tests`` those that run.
    """

    learnt: tuple[float, ...] = ()
    merged: int = 1
    pending: tuple[float, ...] = ()
    usual: Moments | None = None
    count: int = 0
    tests: tuple[Drift, ...] = ()

    def add(self, mean: float) -> Stream:
        """With one further window mean."""
        if self.usual is None:
            return _begun((*self.learnt, mean))
        pending = (*self.pending, mean)
        if len(pending) < self.merged:
            return replace(self, pending=pending)
        tests = _running(self.tests, self.count, Drift(self.usual), lambda test: test.since.count)
        tests = tuple(test.add(fmean(pending)) for test in tests)
        return replace(self, pending=(), count=self.count + 1, tests=tests)

    @property
    def drifted(self) -> Drift | None:
        """The shortest test that says so now, of windows of which one alone may be odd."""
        sure = (test for test in reversed(self.tests) if test.likelihood >= 1 / test.alpha)
        return next((test for test in sure if test.since.count >= LEAST_SINCE), None)


def _running(tests: tuple[T, ...], count: int, fresh: T, age: Callable[[T], int]) -> tuple[T, ...]:
    """The tests that a further value is for: those that are not over, and every ``STEP`` values a fresh one."""
    young = tuple(test for test in tests if age(test) < EPISODE)
    return young if count % STEP else (*young, fresh)


def _begun(means: tuple[float, ...]) -> Stream:
    """Looked at only when they have doubled: many looks find a moment at which nothing seems to hang together."""
    merged = len(means) // LEAST_WINDOWS
    if merged * LEAST_WINDOWS == len(means) and merged.bit_count() == 1:
        usual = [fmean(means[at : at + merged]) for at in range(0, len(means), merged)]
        if lag_one(usual) <= MOST_LAG:
            return Stream(merged=merged, usual=Moments.of(usual))
    return Stream(means if len(means) < MOST_WINDOWS else ())


def lag_one(means: Sequence[float]) -> float:
    """The correlation of each value with the next, -1 to 1; what is rounded away hangs together with nothing."""
    middle = fmean(means)
    square = sum((one - middle) ** 2 for one in means) + len(means) * (ROUNDING * middle) ** 2
    return sum((a - middle) * (b - middle) for a, b in pairwise(means)) / square if square else 0.0


@dataclass(frozen=True)
class Rare:
    """Does a sign come more often than in ``RARE`` of all looks: a likelihood ratio against a mixture of larger shares.

    Each part is a supermartingale where the sign is as rare as it should be, so it too may be looked at at will.
    """

    looks: int = 0
    signs: int = 0
    alpha: float = ALPHA * STEP / EPISODE

    @property
    def likelihood(self) -> float:
        """How much likelier too many signs are than few, by these looks."""
        clear = self.looks - self.signs
        parts = [(share / RARE) ** self.signs * ((1 - share) / (1 - RARE)) ** clear for share in TOO_OFTEN]
        return fmean(parts)


@dataclass(frozen=True)
class Signs:
    """Signs over time: ``tests`` are those that run, ``count`` all looks."""

    count: int = 0
    tests: tuple[Rare, ...] = ()

    def add(self, *, sign: bool) -> Signs:
        """With one look more."""
        tests = _running(self.tests, self.count, Rare(), lambda test: test.looks)
        more = tuple(replace(test, looks=test.looks + 1, signs=test.signs + sign) for test in tests)
        return Signs(self.count + 1, more)

    @property
    def too_often(self) -> Rare | None:
        """The shortest test that says so now."""
        return next((test for test in reversed(self.tests) if test.likelihood >= 1 / test.alpha), None)
