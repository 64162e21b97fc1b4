"""All orders of events, to a depth: the invariants hold, and each can be seen to fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddtune.onhost import txn as t
from ddtune.onhost import txn_back, txn_forward, txn_model
from tests.unit.onhost_txn import world as w


def test_invariants_hold_in_every_order_of_events() -> None:
    seen, way = w.search(6)
    print(f"{seen} states")
    assert way is None, " → ".join(way)
    assert seen > 1000


def _no_drop(*args, **kwargs):
    new, effects = _REAL_ROLL_BACK(*args, **kwargs)
    return new, tuple(effect for effect in effects if not isinstance(effect, t.DropTrial))


def _unsettled_never(*args, **kwargs):
    new, effects = _REAL_ROLL_BACK(*args, **kwargs)
    return replace(new, settled=True), effects


def _abort_a_commit(txn, event):
    late = txn.state == t.COMMITTED
    return _REAL_ROLL_BACK(txn, event.at, "aborted", (), False, restore=True) if late else txn_back.abort(txn, event)


_REAL_ROLL_BACK = txn_back.roll_back

MUTATIONS = {
    "S1": (txn_forward, "busy", lambda txn: False),
    "S2": (t._HANDLERS, t.Soak, lambda txn, event: (replace(txn, state=t.COMMITTING), ())),
    "S3": (t._HANDLERS, t.Abort, _abort_a_commit),
    "S4": (txn_back, "roll_back", _no_drop),
    "S5": (txn_back, "roll_back", _unsettled_never),
    "L1": (t, "expired", lambda txn, at: None),
}


@pytest.mark.parametrize("invariant", MUTATIONS)
def test_a_planted_fault_is_found(invariant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, fault = MUTATIONS[invariant]
    if isinstance(where, dict):
        monkeypatch.setitem(where, name, fault)
    else:
        monkeypatch.setattr(where, name, fault)
    _, way = w.search(7)
    assert way is not None
    assert way[-1].startswith(invariant), way


def test_time_counts_before_what_arrives_with_it() -> None:
    assert txn_model.expired(w.fresh("a", 0, 0, 0), w.LEASE) == "lease_lost"
