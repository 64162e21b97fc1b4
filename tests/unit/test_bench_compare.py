"""What two arms say of each other."""

from __future__ import annotations

import random

import pytest

from ddtune.bench.compare import compare, judged


def arm(seed: int, mean: float, spread: float, count: int = 12) -> dict[str, float]:
    rng = random.Random(seed)
    return {f"p{index}": rng.gauss(mean, spread) for index in range(count)}


@pytest.mark.parametrize("seed", range(20))
def test_two_arms_of_one_profile_are_not_resolved(seed: int) -> None:
    assert compare(arm(seed, 1600, 60), arm(seed + 100, 1600, 60)).word == "not resolved"


def test_a_small_difference_that_prompts_agree_on_is_not_resolved_either() -> None:
    first = arm(1, 1600, 60)
    found = compare(first, {name: value * 1.03 for name, value in first.items()})
    assert (found.word, round(found.ratio or 0, 3)) == ("not resolved", 1.03)
    assert "may differ by 20%" in found.reason
    assert compare(first, {name: value * 1.03 for name, value in first.items()}, 0.01).word == "better"


@pytest.mark.parametrize(("factor", "word"), [(3.2, "better"), (0.3, "worse")])
def test_a_large_one_is(factor: float, word: str) -> None:
    first = arm(1, 500, 20)
    assert compare(first, {name: value * factor for name, value in first.items()}).word == word


def test_what_two_fresh_servers_of_one_profile_showed_is_not_resolved() -> None:
    """The pair of docs/gpu-run.md."""
    assert judged(0.835, 0.739, 0.944, 12).word == "not resolved"


def test_few_or_other_prompts_say_nothing() -> None:
    found = compare(arm(1, 500, 20, 4), arm(2, 900, 20, 4))
    assert (found.word, found.ratio, found.pairs) == ("not resolved", None, 4)
    assert compare({"a": 1.0}, {"b": 2.0}).pairs == 0
