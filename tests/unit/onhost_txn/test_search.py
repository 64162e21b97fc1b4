"""Everything that may happen, in any order, to the last new world: the invariants hold, and each can fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ddtune.onhost import ledger, txn_back, txn_forward, txn_model
from ddtune.onhost import txn as t
from tests.unit.onhost_txn import world as w

FIRST = 4000
"""Worlds of the short search: more than twice as many as the deepest of the planted faults needs."""


def test_invariants_hold_in_the_first_worlds() -> None:
    search = w.Search().run(FIRST)
    assert search.found is None, " → ".join(search.found)
    assert search.count >= FIRST


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_invariants_hold_in_every_order_of_events(capsys: pytest.CaptureFixture[str]) -> None:
    search = w.Search().run()
    with capsys.disabled():
        print(f"\n{search.count} worlds, {search.transactions} states of a transaction; no further one can be reached")
    assert search.found is None, " → ".join(search.found)
    assert search.ended
    assert search.count > 10_000


def _no_drop(*args: Any, **kwargs: Any) -> Any:
    new, effects = _ROLL_BACK(*args, **kwargs)
    return new, tuple(effect for effect in effects if not isinstance(effect, t.DropTrial))


def _settled_at_once(*args: Any, **kwargs: Any) -> Any:
    new, effects = _ROLL_BACK(*args, **kwargs)
    return replace(new, settled=True), effects


def _abort_a_commit(txn: t.Txn, event: t.Abort) -> Any:
    late = txn.state == t.COMMITTED
    return _ROLL_BACK(txn, event.at, "aborted", (), False, restore=True) if late else txn_back.abort(txn, event)


def _launch_whatever_the_time(txn: t.Txn, at: float) -> str | None:
    return None if txn.state == t.TRIAL else _EXPIRED(txn, at)


def _link_after_state(paths: Any, old: Any, new: Any, effects: Any) -> None:
    ledger.write(paths, new) if new is not None and new != old else None
    ledger._perform(paths, new, effects)


def _commits_unasked(txn: t.Txn, event: t.Soak) -> Any:
    return replace(txn, state=t.COMMITTING), ()


def _no_repair(paths: Any, txn: t.Txn) -> None:
    return None


def _always_again(txn: t.Txn, event: t.RestoreFailed) -> Any:
    return replace(txn, restore=t.Restore("stop", 2, event.at)), ()


_ARM, _ROLL_BACK, _EXPIRED = txn_forward.arm, txn_back.roll_back, txn_model.expired

MUTATIONS: dict[str, tuple[Any, Any, Callable[..., Any]]] = {
    "S1: a second operator is let in": (txn_forward, "arm", lambda txn, event: _ARM(None, event)),
    "S2: nobody confirms": (t._HANDLERS, t.Soak, _commits_unasked),
    "S3: a commit is aborted": (t._HANDLERS, t.Abort, _abort_a_commit),
    "S5: a commit is said before its link has moved": (ledger, "carry_out", _link_after_state),
    "S4: the trial stays named": (txn_back, "roll_back", _no_drop),
    "S4: what a crash left is not made good": (ledger, "_unfinished", _no_repair),
    "S5: settled before stable runs": (txn_back, "roll_back", _settled_at_once),
    "S5: the launcher does not look at the time": (t, "expired", _launch_whatever_the_time),
    "L1: no time ever passes": (t, "expired", lambda txn, at: None),
    "L1: stable is tried for ever": (t._HANDLERS, t.RestoreFailed, _always_again),
}


@pytest.mark.parametrize("fault", MUTATIONS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, mutation = MUTATIONS[fault]
    if isinstance(where, dict):
        monkeypatch.setitem(where, name, mutation)
    else:
        monkeypatch.setattr(where, name, mutation)
    search = w.Search().run()
    assert search.found, f"not found in {search.count} worlds"
    assert search.count < FIRST / 2
    print(" → ".join(search.found))
    assert search.found[-1].startswith(fault[:2])


def test_time_counts_before_what_arrives_with_it() -> None:
    assert txn_model.expired(w.fresh("a", 0, 0, 0), w.LEASE) == "lease_lost"
