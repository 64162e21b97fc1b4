"""A fabric that is not ready yet costs a candidate its first start and nothing more (field case K1-24)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddtune.onhost import txn as t
from ddtune.onhost.unit import UnitState
from ddtune.onhost.watch_unit import lost

NOT_YET = "NCCL WARN Cuda failure 802 'system not yet initialized'"
FOR_GOOD = "NCCL WARN Cuda failure 401 'the operation cannot be performed in the present state'"


def _trial(tries_left: int = 1, ready: bool = False) -> t.Txn:
    return t.Txn(
        op="0001-a", kind="switch", unit="engine.service", owner={}, boot_id="b", armed_at=0.0, wall_at=0.0,
        candidate="c", stable="s", lease_s=60.0, lease_until=60.0, confirm_deadline=600.0, tries_left=tries_left,
        state=t.TRIAL, trial_invocation="one", start_invocation="zero", ready=ready, times={"swapped": 1.0},
    )  # fmt: skip


def _fatal(txn: t.Txn, text: str, at: float = 5.0) -> t.Txn:
    new, _ = t.step(txn, t.Fatal(at, txn.op, "nvls_fabric", ({"text": text},)))
    assert new is not None
    return new


def _chosen(txn: t.Txn, invocation: str) -> tuple[t.Txn, str]:
    new, effects = t.step(txn, t.Chosen(6.0, "b", invocation))
    assert new is not None
    return new, next(effect.which for effect in effects if isinstance(effect, t.Launch))


def test_k1_24_802_is_tried_once_more_and_both_are_recorded() -> None:
    forgiven = _fatal(_trial(), NOT_YET)
    assert (forgiven.state, forgiven.forgiven, forgiven.cause) == (t.TRIAL, "one", None)
    second, which = _chosen(forgiven, "two")
    assert (which, second.trial_invocation) == ("trial", "two")
    ended = _fatal(second, NOT_YET)
    assert (ended.state, ended.cause, len(ended.evidence)) == (t.ROLLED_BACK, "nvls_fabric", 2)


def test_k1_24_second_start_may_commit() -> None:
    second, _ = _chosen(_fatal(_trial(), NOT_YET), "two")
    new, effects = t.step(replace(second, ready=True), t.Confirm(9.0, second.op, "two", "two"))
    assert new is not None
    assert new.state == t.COMMITTING
    assert t.refusal(effects) is None


@pytest.mark.parametrize(
    ("txn", "text"),
    [(_trial(), FOR_GOOD), (_trial(tries_left=0), NOT_YET), (_trial(ready=True), NOT_YET)],
    ids=["another error", "no try left", "it served already"],
)
def test_k1_24_all_else_goes_back_at_once(txn: t.Txn, text: str) -> None:
    assert _fatal(txn, text).state == t.ROLLED_BACK


def test_k1_24_the_forgiven_start_is_nobodys_while_it_ends() -> None:
    forgiven = _fatal(_trial(), NOT_YET)
    running = UnitState("active", "running", "success", 7, "one", 0, 0, 0)
    assert lost(forgiven, running, {}) is None
    assert lost(forgiven, replace(running, invocation="stranger"), {}) is not None


@pytest.mark.parametrize("state", [t.TRIAL, t.SOAK])
def test_k5_02_a_trial_that_served_and_starts_again_has_crashed(state: str) -> None:
    """systemd restarts it between two looks of the guard; a try that is left is none for that."""
    new, which = _chosen(replace(_trial(tries_left=2, ready=True), state=state), "two")
    assert which == "stable"
    assert (new.state, new.cause, new.blamed) == (t.ROLLED_BACK, "engine_dead", True)


def test_start_that_ends_before_it_serves_is_tried_again() -> None:
    new, which = _chosen(_trial(tries_left=1), "two")
    assert (which, new.state, new.tries_left) == ("trial", t.TRIAL, 0)
