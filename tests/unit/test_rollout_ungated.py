"""Users' requests before the verdict, counted from the engine's own counter."""

from __future__ import annotations

from ddtune.rollout.ungated import Ungated


def _counting(argv: tuple[str, ...] = ()) -> tuple[Ungated, dict[str, int]]:
    ours = {"sent": 40}
    counting = Ungated(lambda: "inv2", lambda: ours["sent"], argv)
    counting.begin()
    return counting, ours


def test_warm_up_and_ours_are_nobodys() -> None:
    counting, ours = _counting()
    ours["sent"] += 8
    counting.read("inv2", 9.0)
    assert counting.count == 0
    counting.read("inv2", 12.0)
    assert counting.count == 3


def test_without_a_warm_up_the_first_one_is_a_user() -> None:
    counting, _ = _counting(("--skip-server-warmup",))
    counting.read("inv2", 1.0)
    assert counting.count == 1


def test_ours_on_their_way_never_make_it_too_high_nor_take_back_what_was_seen() -> None:
    counting, ours = _counting()
    counting.read("inv2", 6.0)
    assert counting.count == 5
    ours["sent"] += 32
    counting.read("inv2", 14.0)
    assert counting.count == 5
    counting.read("inv2", 40.0)
    assert counting.count == 7


def test_another_starts_counter_is_another_starts() -> None:
    counting, _ = _counting()
    counting.read("inv1", 900.0)
    assert counting.count is None


def test_no_trial_served_nobody() -> None:
    assert Ungated(lambda: None, lambda: 0, ()).count == 0
