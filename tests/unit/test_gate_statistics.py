"""What the gate's numbers can and cannot exclude, and the test for drift that may be looked at after every window."""

from __future__ import annotations

import math
import random

import pytest

from ddtune.gate import chances
from ddtune.gate.sequential import (
    EPISODE,
    HANG,
    LEAST_WINDOWS,
    MOST_LAG,
    STEP,
    Drift,
    Moments,
    Signs,
    Stream,
    Windows,
    lag_one,
)

SEED = random.SystemRandom().randrange(10**9)


def test_tails_are_exact() -> None:
    assert chances.at_least(0, 10, 0.3) == pytest.approx(1)
    assert chances.at_least(10, 10, 0.5) == pytest.approx(0.5**10)
    for of, share in ((26, 0.02), (8, 0.1), (100, 0.01)):
        most = chances.allowed(of, share, 1e-4)
        assert chances.at_least(most + 1, of, share) < 1e-4 <= chances.at_least(most, of, share)


def alarm(rng: random.Random, length: int, shift: float, alpha: float) -> int | None:
    """When the test speaks of a service whose mean moves by ``shift`` standard deviations once it is known."""
    test = Drift(Moments.of([rng.gauss(100.0, 2.0) for _ in range(LEAST_WINDOWS)]), alpha=alpha)
    for window in range(1, length + 1):
        test = test.add(rng.gauss(100.0 + 2 * shift, 2.0))
        if test.drifted:
            return window
    return None


def test_looking_after_every_window_keeps_the_level_though_mean_and_spread_are_only_estimated() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    false = sum(alarm(rng, EPISODE, 0.0, 0.05) is not None for _ in range(400))
    # With the estimates in the place of a known mean and spread, it would speak in a quarter of the runs.
    assert false / 400 < 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5


def test_sound_streams_raise_no_alarm_also_where_windows_hang_together() -> None:
    """4 to 5 episodes each, of which one in 10,000 may speak: three alarms and more come once in ten thousand runs."""
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    false = tested = 0
    for _ in range(200):
        keeps, value, stream = rng.uniform(0.0, 0.8), rng.gauss(0, 1), Stream()
        for _ in range(600):
            value = keeps * value + math.sqrt(1 - keeps**2) * rng.gauss(0, 1)
            stream = stream.add(4.5 + 0.3 * value)
            if stream.drifted:
                break
        false += stream.drifted is not None
        tested += stream.usual is not None
    assert false <= 2
    assert tested > 100


def test_a_drift_is_found_as_soon_as_it_is_said_to_be() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    two, four = ([alarm(rng, EPISODE, shift, 1e-4) or EPISODE for _ in range(100)] for shift in (2.0, 4.0))
    assert sorted(two)[50] <= 25
    assert max(two) < 80
    assert max(four) <= 15


def test_what_begins_after_days_of_health_is_found_as_soon() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    stream, windows = Stream(), 0
    for _ in range(5000):
        stream = stream.add(rng.gauss(4.5, 0.2))
    assert not stream.drifted
    while not stream.drifted and windows < EPISODE * stream.merged:
        stream, windows = stream.add(rng.gauss(3.9, 0.2)), windows + 1
    assert windows <= stream.merged * (STEP + 20)


def test_with_a_mean_and_spread_that_are_known_it_is_johari_s() -> None:
    """``sqrt(s2 / (s2 + n t2)) exp(n^2 t2 d^2 / (2 s2 (s2 + n t2)))``, with the spread that the level is kept with."""
    spread, many = 4.0, 10**9
    test = Drift(Moments(many, 100.0, (spread / HANG) * many))
    for value in (101.0, 103.5, 99.0, 104.0, 106.0):
        test = test.add(value)
    n, off, t2 = test.since.count, test.since.mean - 100.0, spread
    wide = spread + n * t2
    known = math.sqrt(spread / wide) * math.exp(n * n * t2 * off * off / (2 * spread * wide))
    assert test.likelihood == pytest.approx(known, rel=0.01)


def test_once_said_it_stays_said() -> None:
    test = Drift(Moments(50, 0.0, 50.0))
    for value in [5.0] * 6 + [-4.0] * 9:
        test = test.add(value)
    assert test.likelihood < 100
    assert test.drifted


def test_a_value_that_never_differs_is_usual_and_a_step_of_it_a_drift() -> None:
    stream = Stream()
    for _ in range(LEAST_WINDOWS + 5):
        stream = stream.add(4.48)
    assert not stream.drifted
    for _ in range(10):
        stream = stream.add(4.0)
    assert stream.drifted


def test_one_odd_window_is_no_drift() -> None:
    stream = Stream()
    for at in range(LEAST_WINDOWS + EPISODE):
        stream = stream.add(1.5 if at == LEAST_WINDOWS + 7 else 4.48)
        assert stream.drifted is None


def test_what_hangs_together_is_tested_over_wider_windows_or_not_at_all() -> None:
    rising = Stream()
    for at in range(40 * LEAST_WINDOWS):
        rising = rising.add(100.0 + at)
    assert rising.usual is None, "a rising line is no noise"
    pairs, rng = Stream(), random.Random(5)
    for _ in range(4 * LEAST_WINDOWS):
        value = rng.gauss(4.5, 0.2)
        pairs = pairs.add(value).add(value)
    assert pairs.merged > 1
    assert pairs.usual is not None


def test_windows_are_whole_and_of_some_readings() -> None:
    windows, means = Windows(), []
    for at, value in [
        (0.0, 1.0),
        (3.0, 2.0),
        (9.9, 3.0),
        (10.0, 9.0),
        (15.0, 9.0),
        (500.0, 5.0),
        (505.0, 5.0),
        (506.0, 8.0),
    ]:
        windows, mean = windows.add(at, value)
        means.append(mean)
    assert means == [None, None, None, 2.0, None, None, None, None], "two readings are no window"
    # A clock that was set back begins a window, and loses none of what there is.
    assert windows.add(100.0, 1.0)[1] == 6.0


def test_signs_that_are_rare_stay_unsaid_and_those_that_are_not_are_found() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)

    def looks(share: float, most: int) -> int | None:
        test = Signs()
        for look in range(1, most + 1):
            test = test.add(sign=rng.random() < share)
            if test.too_often:
                return look
        return None

    assert sum(looks(0.02, 600) is not None for _ in range(200)) <= 2
    assert all((looks(0.4, 600) or 600) < EPISODE for _ in range(50))
    assert looks(1.0, 4) == 4
    assert looks(1.0, 3) is None


def test_the_lag_says_whether_windows_are_wide_enough() -> None:
    rng = random.Random(7)
    noise = [rng.gauss(0, 1) for _ in range(500)]
    smooth = [sum(noise[at : at + 10]) for at in range(490)]
    assert abs(lag_one(noise)) < MOST_LAG < lag_one(smooth)
    assert lag_one([1.0, 1.0]) == 0
