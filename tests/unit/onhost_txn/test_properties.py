"""What holds for every event on every transaction, whatever came before."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ddtune.onhost import txn as t
from tests.unit.onhost_txn.world import fresh

AT = st.floats(0, 12, allow_nan=False)
OP = st.sampled_from(["a", "b"])
INV = st.sampled_from(["0", "1", "2"])
CAUSE = st.sampled_from(["cublas_error", "aborted", "drift", "engine_dead", "lease_lost", "xid_hardware"])
EVENTS = st.one_of(
    st.builds(lambda at, op: t.Arm(at, fresh(op, at, 0, 0)), AT, OP),
    st.builds(t.Swap, AT, OP),
    st.builds(t.Mark, AT, OP, st.sampled_from(["stopped", "started"])),
    st.builds(t.Chosen, AT, st.sampled_from(["0", "1"]), INV, st.booleans()),
    st.builds(t.Ready, AT, OP),
    st.builds(t.Soak, AT, OP),
    st.builds(t.Renew, AT, OP),
    st.builds(t.Confirm, AT, OP, INV, INV),
    st.builds(t.Finish, AT, OP),
    st.builds(t.Fail, AT, OP, CAUSE),
    st.builds(t.Abort, AT, st.one_of(st.none(), OP)),
    st.builds(t.Fatal, AT, OP, CAUSE),
    st.builds(t.Ended, AT, OP, CAUSE),
    st.builds(t.HostAction, AT, OP, CAUSE, st.just("reset the GPU")),
    st.builds(t.Tick, AT, OP),
    st.builds(t.Reboot, AT, st.sampled_from(["0", "1"])),
    st.builds(t.Restoring, AT, OP, st.sampled_from(["stop", "start", "check"])),
    st.builds(t.Restored, AT, OP),
    st.builds(t.RestoreFailed, AT, OP, CAUSE, st.just(()), st.booleans()),
    st.builds(t.GaveUp, AT, OP),
    st.builds(t.Settle, AT, OP, st.booleans()),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(EVENTS, max_size=25))
def test_any_order_of_events(events: list[t.Event]) -> None:
    txn: t.Txn | None = None
    now = 0.0
    for event in events:
        now = max(now, event.at)
        event = replace(event, at=now)
        old = txn
        txn, effects = t.step(old, event)
        if old is None and not isinstance(event, t.Arm):
            assert txn is None
        if isinstance(event, t.Chosen):
            assert sum(isinstance(effect, t.Launch) for effect in effects) == 1
        if txn is None:
            continue
        assert t.from_json(json.loads(json.dumps(t.to_json(txn)))) == txn
        if t.refusal(effects) and not (old and t.expired(old, now)):
            assert txn == old
            assert len(effects) == 1
        if old is not None and old.state == t.COMMITTED and txn.op == old.op and not isinstance(event, t.Arm):
            assert replace(txn, times=old.times) == old
        if txn.state in t.LIVE:
            assert not txn.settled
        if txn.settled:
            assert txn.state in t.DECIDED
        if txn.state in (t.ROLLED_BACK, t.ROLLBACK_FAILED, t.HOST_ACTION_REQUIRED) and not txn.settled:
            assert txn.restore is not None
        if any(isinstance(effect, t.Quarantine) for effect in effects):
            assert txn.trial_invocation is not None
            assert txn.candidate != txn.stable
