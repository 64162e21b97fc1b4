"""What the gate's numbers can and cannot exclude, and the test for drift that may be looked at after every window."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ddtune.gate import chances, sequential
from ddtune.gate.sequential import Drift, lag_one, usual, windows

SEED = random.SystemRandom().randrange(10**9)


def test_five_of_five_say_no_more_than_55_percent() -> None:
    assert 1 - chances.excluded(5) == pytest.approx(0.55, abs=0.005)
    assert (chances.needed(0.05), chances.needed(0.02)) == (59, 149)
    assert chances.excluded(59) <= 0.05 < chances.excluded(58)
    assert chances.excluded(0) == 1


def test_tails_are_exact() -> None:
    assert chances.at_least(0, 10, 0.3) == pytest.approx(1)
    assert chances.at_least(10, 10, 0.5) == pytest.approx(0.5**10)
    for of, share in ((26, 0.02), (8, 0.1), (100, 0.01)):
        most = chances.allowed(of, share, 1e-4)
        assert chances.at_least(most + 1, of, share) < 1e-4 <= chances.at_least(most, of, share)


def alarms(runs: int, length: int, shift: float, alpha: float) -> list[int | None]:
    """When the test speaks in each of ``runs`` services whose mean moves by ``shift`` standard deviations."""
    rng = random.Random(SEED)
    found: list[int | None] = []
    for _ in range(runs):
        test, at = Drift(100.0, 4.0, 4.0, alpha), None
        for window in range(1, length + 1):
            test = test.add(rng.gauss(100.0 + 2 * shift, 2.0))
            if test.drifted:
                at = window
                break
        found.append(at)
    return found


def test_looking_after_every_window_keeps_the_level() -> None:
    print(f"seed {SEED}")
    false = sum(at is not None for at in alarms(600, 200, 0.0, 0.05))
    # A fixed test at 5 % that is looked at 200 times would speak in nearly half of the runs.
    assert false / 600 < 0.05 + 3 * (0.05 * 0.95 / 600) ** 0.5


def test_a_drift_of_its_size_is_found_in_tens_of_windows_and_a_large_one_at_once() -> None:
    print(f"seed {SEED}")
    one, four = alarms(200, 200, 1.0, 0.001), alarms(200, 200, 4.0, 0.001)
    assert all(at is not None and at <= 120 for at in one)
    assert all(at is not None and at <= 6 for at in four)


def test_the_interval_covers_the_mean_at_every_moment_and_shrinks() -> None:
    rng = random.Random(SEED)
    missed = 0
    for _ in range(300):
        test, bad = Drift(0.0, 1.0, 1.0, 0.05), False
        widths = []
        for _ in range(150):
            test = test.add(rng.gauss(3.0, 1.0))
            assert test.mean is not None
            assert test.half_width is not None
            widths.append(test.half_width)
            bad |= abs(test.mean - 3.0) > test.half_width
        missed += bad
        assert widths == sorted(widths, reverse=True)
    assert missed / 300 < 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5


def test_once_said_it_stays_said() -> None:
    test = Drift(0.0, 1.0, 1.0, 0.01)
    for value in [5.0] * 5 + [-2.0] * 12:
        test = test.add(value)
    assert test.likelihood < 100
    assert test.drifted
    assert not replace(test, peak=1.0).drifted


def test_what_was_usual_needs_enough_windows_that_do_not_hang_together() -> None:
    rng = random.Random(5)
    means = [100 + rng.gauss(0, 2) for _ in range(40)]
    begun = usual(means, 0.1)
    assert begun is not None
    assert begun.t2 == pytest.approx((0.1 * begun.theta0) ** 2)
    assert usual(means[:11], 0.1) is None
    assert usual([100 + at for at in range(40)], 0.1) is None, "a rising line is no noise"


def test_windows_are_whole_and_take_what_has_a_value() -> None:
    readings = [(0.5, 1.0), (4.0, 3.0), (12.0, None), (21.0, 5.0), (25.0, 7.0), (31.0, 100.0)]
    assert windows(readings) == [2.0, 6.0], "the last window is not over"
    assert sequential.WINDOW_S == 10


def test_the_lag_says_whether_windows_are_wide_enough() -> None:
    rng = random.Random(7)
    noise = [rng.gauss(0, 1) for _ in range(500)]
    smooth = [sum(noise[at : at + 10]) for at in range(490)]
    assert abs(lag_one(noise) or 0) < 0.2 < (lag_one(smooth) or 0)
    assert lag_one([1.0]) is None
