"""What another budget would be worth, beside the recorded numbers of the deployment."""

from __future__ import annotations

import pytest

from ddtune.live.worth import Worth, step_s, worth
from ddtune.profiles.envelope import shipped_envelope
from ddtune.profiles.model import Expect, Profile
from ddtune.profiles.store import load_profiles


def tree(budget: int, accept: float | None = None, **axes: bool) -> Profile:
    return Profile(
        f"b{budget}", {"algorithm": "ddtree", "budget": budget, "graphs": True, **axes}, expect=Expect(accept)
    )


def profiles(*found: Profile) -> dict[str, Profile]:
    return {one.name: one for one in found}


def budgets(found: tuple[Worth, ...]) -> dict[int, Worth]:
    return {one.budget: one for one in found}


def test_a_step_is_seen_from_what_comes_out_of_it() -> None:
    assert step_s(1, 4.48, 303.0) == pytest.approx(0.0148, abs=1e-4)
    assert step_s(128, 4.48, 4723.0) == pytest.approx(0.121, abs=1e-3)
    for values in ((0, 4.48, 0.0), (None, 4.48, 303.0), (1, None, 303.0), (1, 4.48, None)):
        assert step_s(*values) is None


@pytest.mark.parametrize(("accept", "below_ms"), [(5.3, 17.5), (5.85, 19.3), (6.4, 21.1)])
def test_sixteen_nodes_break_even_where_they_were_computed_by_hand(accept: float, below_ms: float) -> None:
    now = tree(8, 4.48)
    (one,) = worth(1, 303.0, now, profiles(now, tree(16, accept)), (), "sm_103")
    assert one.break_even_s == pytest.approx(below_ms / 1000, abs=5e-5)
    assert not one.between


def test_a_length_between_two_measured_ones_says_so_and_one_beyond_is_not_made_up() -> None:
    now = tree(8, 4.48)
    found = budgets(worth(1, 303.0, now, profiles(now, tree(12), tree(16, 5.3), tree(32)), (), "sm_103"))
    assert found[12].between
    assert 4.48 < (found[12].accept_length or 0) < 5.3
    assert (found[32].accept_length, found[32].break_even_s) == (None, None)


def test_two_recorded_lengths_promise_the_lower() -> None:
    now = tree(8, 4.48)
    found = worth(1, 303.0, now, {**profiles(now, tree(16, 6.4)), "eager": tree(16, 5.3, graphs=False)}, (), None)
    assert found[0].accept_length == 5.3


def test_the_shipped_envelope_names_budgets_and_what_they_did() -> None:
    shipped = load_profiles()
    found = budgets(worth(128, 4723.0, shipped["b8-nvls"], shipped, shipped_envelope(), "sm_103"))
    assert {budget: one.bad for budget, one in found.items()} == {
        12: "illegal_memory_access",
        16: "illegal_memory_access",
        32: "garbage_output",
        64: "cublas_error",
    }
    assert found[16].break_even_s == pytest.approx(0.1436, abs=1e-4)
    elsewhere = budgets(worth(128, 4723.0, shipped["b8-nvls"], shipped, shipped_envelope(), "sm_90"))
    assert elsewhere[16].bad is None


def test_nothing_is_said_where_there_is_no_budget_or_nothing_runs() -> None:
    shipped = load_profiles()
    assert worth(1, 141.0, shipped["ar"], shipped, (), "sm_103") == ()
    assert worth(1, 303.0, None, shipped, (), "sm_103") == ()
    now = tree(8, 4.48)
    (idle,) = worth(0, 0.0, now, profiles(now, tree(16, 5.3)), (), "sm_103")
    assert (idle.accept_length, idle.break_even_s) == (5.3, None)


def test_a_profile_without_a_budget_names_none() -> None:
    now, bare = tree(8, 4.48), Profile("bare", {"algorithm": "ddtree"})
    assert worth(1, 303.0, now, profiles(now, bare), (), "sm_103") == ()
