"""Which profile a running service is adopted as."""

from __future__ import annotations

import pytest

from ddtune.profiles.model import AxisValue, Profile
from ddtune.rollout.adopt import ADOPTED, name_for

AXES: dict[str, AxisValue] = {"algorithm": "none", "graphs": True, "nvls": False, "max_running": 8}


@pytest.mark.parametrize(
    ("mine", "expected"),
    [
        ({"algorithm": "none", "graphs": True, "max_running": 8}, "mine"),
        ({"algorithm": "none", "max_running": 8}, "mine"),
        ({"max_running": 8}, "shipped"),
        ({"algorithm": "none", "graphs": True, "max_running": 4}, "shipped"),
        ({"algorithm": "none", "graphs": True, "max_running": 8, "budget": 8}, "shipped"),
    ],
    ids=["says more", "says as much", "says less", "says otherwise", "says what is not there"],
)
def test_the_profile_that_says_most_is_meant(mine: dict[str, AxisValue], expected: str) -> None:
    known = {"shipped": Profile("shipped", {"algorithm": "none", "graphs": True}), "mine": Profile("mine", mine)}
    assert name_for(AXES, known) == expected


def test_a_profile_with_arguments_of_its_own_is_not_meant() -> None:
    assert name_for(AXES, {"x": Profile("x", {"max_running": 8}, args=("--model-path", "/other"))}) == ADOPTED


def test_a_service_like_none_is_adopted_under_no_profiles_name() -> None:
    assert name_for(AXES, {"empty": Profile("empty", {}), "other": Profile("other", {"max_running": 9})}) == ADOPTED
