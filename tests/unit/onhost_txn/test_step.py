"""Decisions of the transaction that have a reason of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddtune.onhost import txn as t
from tests.unit.onhost_txn.world import CANDIDATE, STABLE, fresh


def run(*events: t.Event, txn: t.Txn | None = None) -> tuple[t.Txn, tuple[t.Effect, ...]]:
    """``txn`` (default: a fresh one) taken through ``events``; the effects are of the last."""
    txn = txn or fresh("a", 0, 0, 0)
    effects: tuple[t.Effect, ...] = ()
    for event in events:
        new, effects = t.step(txn, event)
        assert new is not None
        txn = new
    return txn, effects


def on_trial(**changes: object) -> t.Txn:
    txn, _ = run(t.Swap(0.1, "a"), t.Chosen(0.2, "0", "1"))
    return replace(txn, **{"lease_until": 1000.0, "confirm_deadline": 2000.0, **changes})


def kinds(effects: tuple[t.Effect, ...]) -> list[type]:
    return [type(effect) for effect in effects]


def settle(txn: t.Txn) -> tuple[t.Txn, tuple[t.Effect, ...]]:
    return run(t.Restoring(2, "a", "start"), t.Restoring(3, "a", "check"), t.Restored(4, "a"), txn=txn)


def test_the_first_start_is_the_trial_and_uses_up_the_try() -> None:
    txn, effects = run(t.Swap(0.1, "a"), t.Chosen(0.2, "0", "1"))
    assert effects == (t.Launch("trial"),)
    assert (txn.tries_left, txn.trial_invocation, txn.start_deadline) == (0, "1", 3.2)


def test_a_second_start_goes_to_stable_and_decides() -> None:
    txn, effects = run(t.Chosen(0.5, "0", "2"), txn=on_trial())
    assert t.Launch("stable") in effects
    assert (txn.state, txn.cause, txn.stable_invocation, txn.settled) == (t.ROLLED_BACK, "start_failed", "2", False)


def test_an_asked_second_start_does_not_blame_the_candidate() -> None:
    txn, _ = run(t.Chosen(0.5, "0", "2", asked=True), txn=on_trial())
    assert txn.cause == "drift"
    assert t.Quarantine not in kinds(settle(txn)[1])


def test_another_boot_never_starts_a_trial() -> None:
    txn, effects = run(t.Chosen(0.5, "1", "2"), txn=on_trial(tries_left=5))
    assert t.Launch("stable") in effects
    assert (txn.state, txn.cause, txn.settled) == (t.ROLLED_BACK, "killed", True)


def test_an_untouched_service_is_left_alone() -> None:
    txn, effects = run(t.Tick(2.5, "a"))
    assert (txn.state, txn.cause, txn.settled, txn.restore) == (t.ROLLED_BACK, "lease_lost", True, None)
    assert [effect.outcome for effect in effects if isinstance(effect, t.Record)] == ["rolled_back"]


def test_stable_dying_under_an_armed_transaction_is_brought_back() -> None:
    txn, _ = run(t.Ended(0.5, "a", "engine_dead"))
    assert txn.restore is not None
    assert not txn.settled
    assert t.Quarantine not in kinds(settle(txn)[1])


@pytest.mark.parametrize(
    ("ready", "cause"),
    [(False, "start_hang"), (True, "deadline_expired")],
)
def test_deadlines(ready: bool, cause: str) -> None:
    at = 4.0 if not ready else 2001.0
    txn, _ = run(t.Tick(at, "a"), txn=on_trial(ready=ready, lease_until=9999))
    assert txn.cause == cause
    assert (t.Quarantine in kinds(settle(txn)[1])) == ready


def test_confirm_needs_the_very_start_that_was_judged() -> None:
    txn = on_trial(ready=True)
    assert t.refusal(t.step(txn, t.Confirm(1, "a", "1", "2"))[1])
    assert t.refusal(t.step(txn, t.Confirm(1, "a", "2", "2"))[1])
    assert t.refusal(t.step(replace(txn, ready=False), t.Confirm(1, "a", "1", "1"))[1])
    new, effects = run(t.Confirm(1, "a", "1", "1"), txn=txn)
    assert (new.state, effects) == (t.COMMITTING, ())


def test_a_visit_is_never_confirmed_and_an_asked_end_of_it_blames_nobody() -> None:
    visit = on_trial(kind="golden", ready=True)
    txn, effects = run(t.Confirm(1, "a", "1", "1"), txn=visit)
    assert txn == visit
    assert isinstance(effects[0], t.Refused)
    txn, _ = run(t.Abort(1, "a", "operator_request"), txn=visit)
    assert txn.state == t.ROLLED_BACK
    assert t.Quarantine not in kinds(settle(txn)[1])


def test_a_confirm_that_comes_too_late_is_refused_and_rolls_back() -> None:
    txn, effects = run(t.Confirm(1000, "a", "1", "1"), txn=on_trial(ready=True))
    assert (txn.state, txn.cause) == (t.ROLLED_BACK, "lease_lost")
    assert t.refusal(effects)


def test_a_second_operator_is_told_who_and_until_when() -> None:
    txn, effects = run(t.Arm(1.0, fresh("b", 1.0, 0, 0)))
    refused = t.refusal(effects)
    assert txn.op == "a"
    assert refused is not None
    assert refused.cause == "busy"
    assert refused.detail["until"] == 2.0
    assert "host decides in 1 s" in refused.message


@pytest.mark.parametrize(
    ("owner", "candidate", "same"),
    [("a", CANDIDATE, True), ("b", CANDIDATE, False), ("a", STABLE, False)],
)
def test_the_same_arm_again_is_answered_and_begins_nothing(owner: str, candidate: str, same: bool) -> None:
    before, _ = run(t.Renew(0.5, "a"))
    again = replace(fresh("a", 1, 0, 0, candidate), owner={"who": owner})
    txn, effects = t.step(before, t.Arm(1, again, known=True))
    assert txn == before
    assert (effects == ()) is same
    swapped, _ = run(t.Swap(0.6, "a"))
    refused = t.refusal(t.step(swapped, t.Arm(1, again, known=True))[1])
    assert refused is not None
    assert refused.cause == "busy"


@pytest.mark.parametrize("known", [True, False])
def test_an_op_never_comes_to_mean_another_transaction(known: bool) -> None:
    before, _ = run(t.Abort(1, "a"))
    assert before.settled
    again = fresh("a" if not known else "b", 2, 0, 0)
    txn, effects = t.step(before, t.Arm(2, again, known))
    refused = t.refusal(effects)
    assert txn == before
    assert refused is not None
    assert "begun on this host already" in refused.message
    assert t.refusal(t.step(before, t.Arm(2, fresh("b", 2, 0, 0)))[1]) is None


def test_a_late_line_explains_a_weak_cause_and_only_that() -> None:
    dead, _ = run(t.Ended(0.5, "a", "engine_dead"), txn=on_trial())
    assert run(t.Fatal(0.6, "a", "cublas_error"), txn=dead)[0].cause == "cublas_error"
    aborted, _ = run(t.Abort(0.5), txn=on_trial())
    assert run(t.Fatal(0.6, "a", "cublas_error"), txn=aborted)[0].cause == "aborted"


def test_a_hardware_fault_takes_the_blame_from_the_candidate() -> None:
    txn, _ = run(t.Fatal(0.5, "a", "illegal_memory_access"), txn=on_trial())
    txn, _ = run(t.HostAction(0.6, "a", "gpu_lost", "restart the host"), txn=txn)
    assert (txn.state, txn.settled) == (t.HOST_ACTION_REQUIRED, False)
    done, effects = settle(txn)
    assert (done.state, done.settled) == (t.HOST_ACTION_REQUIRED, True)
    assert t.Quarantine not in kinds(effects)


def test_stable_gets_two_tries_and_a_failed_restart_of_it_one() -> None:
    failed = t.RestoreFailed(2, "a", "start_failed")
    txn, _ = run(t.Fail(1, "a", "slow"), failed, txn=on_trial())
    assert (txn.state, txn.restore) == (t.ROLLED_BACK, t.Restore("stop", 2, 2))
    txn, effects = run(failed, txn=txn)
    assert txn.state == t.ROLLBACK_FAILED
    assert t.Shout in kinds(effects)
    assert run(t.GaveUp(3, "a"), txn=txn)[0].settled
    restart, _ = run(t.Fail(1, "a", "slow"), failed, txn=on_trial(candidate=STABLE))
    assert restart.state == t.ROLLBACK_FAILED


def test_a_release_is_quarantined_with_the_end() -> None:
    txn, effects = run(t.Fail(1, "a", "garbage_output"), txn=on_trial())
    assert t.Quarantine not in kinds(effects)
    assert t.Quarantine(CANDIDATE, "garbage_output") in settle(txn)[1]


def test_a_file_of_a_newer_version_is_read_and_a_broken_one_is_not() -> None:
    found = t.to_json(on_trial())
    assert t.from_json({**found, "added_later": 1}) == on_trial()
    for broken in ({"state": "DANCING"}, {"tries_left": "many"}, {"proto": 2}, {"times": 3}, {"restore": {"phase": 1}}):
        with pytest.raises(t.TxnError):
            t.from_json({**found, **broken})
