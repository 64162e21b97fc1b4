"""Whatever operators, the journal and the clock may tell a transaction."""

from __future__ import annotations

from collections.abc import Iterator

from ddtune.onhost import txn as t
from tests.unit.onhost_txn.disk import ELSEWHERE, NOW, RAN, RUNS


def events(txn: t.Txn | None) -> Iterator[tuple[str, t.Event]]:
    yield "abort", t.Abort(NOW)
    if txn is None:
        return
    yield "guard looks at the time", t.Tick(NOW, txn.op)
    if txn.boot_id == ELSEWHERE or txn.state == t.COMMITTING or t.expired(txn, NOW):
        # Whoever comes next first makes of it what time and boot have decided, and finds that.
        return
    for op in (txn.op, "stranger"):
        yield from (
            ("swap", t.Swap(NOW, op)),
            ("soak", t.Soak(NOW, op)),
            ("renew, drain", t.Renew(NOW, op)),
            ("confirm", t.Confirm(NOW, op, RUNS, RUNS)),
            ("fail", t.Fail(NOW, op, "garbage_output")),
            ("stable fails its gate", t.Settle(NOW, op, False)),
            ("abort", t.Abort(NOW, op)),
        )
    yield from (
        ("mark", t.Mark(NOW, txn.op, "started")),
        ("ready", t.Ready(NOW, txn.op)),
        ("confirm of an old start", t.Confirm(NOW, txn.op, RAN, RUNS)),
        ("confirm by an old look", t.Confirm(NOW, txn.op, RAN, RAN)),
        ("stable passes its gate", t.Settle(NOW, txn.op, True)),
        ("fatal line", t.Fatal(NOW, txn.op, "cublas_error")),
        ("xid", t.HostAction(NOW, txn.op, "xid_hardware", "reset")),
    )
