"""A start under a transaction: the compare-and-swap that decides whether the candidate runs."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from . import choose as chooser
from . import clock, ledger, releases, store, traffic
from .paths import UnitPaths, load_install
from .shout import shout
from .txn import TRYING, Chosen, Fail, Launch, Txn, TxnError

LOCK_S = 2.0


def choose(paths: UnitPaths, invocation: str) -> bool:
    """Decide; True when ``chosen`` holds the candidate for this start now.

    It is staged before the decision, so that a full disk cannot come between the two.
    """
    try:
        txn = ledger.load(paths)
    except TxnError as error:
        shout(f"{paths.unit}: {error}; the service starts on stable")
        return False
    trial = _stage(paths, txn, invocation) if txn is not None and txn.state in TRYING else None
    if not _decide(paths, txn, invocation) or trial is None:
        if trial is not None:
            store.discard(trial)
        return False
    store.publish(trial, paths.chosen)
    return True


def _stage(paths: UnitPaths, txn: Txn, invocation: str) -> str | None:
    """The candidate, staged; a transaction whose candidate cannot be started ends here."""
    try:
        if not os.path.isdir(paths.trial):
            raise releases.ReleaseError(f"{paths.trial} points nowhere")
        release = releases.read(paths, txn.candidate)
        if traffic.held(txn):
            traffic.put(load_install(), txn, os.environ)
        return chooser.stage(paths, invocation, txn.candidate, release, "trial", txn.op)
    except (releases.ReleaseError, traffic.CannotHoldError, store.DiskFull, OSError) as error:
        said = {"at": clock.wall(), "source": "guard", "rank": None, "text": str(error)}
        cause = "disk_full" if isinstance(error, store.DiskFull) else "unknown"
        applied = None
        with suppress(TxnError, store.LockTimeoutError, store.DiskFull, OSError):
            applied = ledger.apply(paths, lambda at: Fail(at, txn.op, cause, (said,)), LOCK_S)
        # One that was decided since it was read has taken its trial away itself: nobody need be told.
        if applied is None or (applied.effects and applied.refused is None):
            shout(f"{paths.unit}: the trial cannot be started ({error})")
        return None


def _decide(paths: UnitPaths, txn: Txn | None, invocation: str) -> bool:
    record = _record(paths, txn.trial_invocation) if txn is not None else {}
    asked = bool(record.get("asked"))
    by = record.get("who")
    evidence = ({"at": clock.wall(), "source": "journal", "rank": None, "text": str(by)},) if by else ()
    try:
        boot_id = clock.boot_id()
        applied = ledger.apply(paths, lambda at: Chosen(at, boot_id, invocation, asked, evidence), LOCK_S)
    except (TxnError, store.LockTimeoutError, store.DiskFull, OSError) as error:
        shout(f"{paths.unit}: {error}; the service starts on stable")
        return False
    return Launch("trial") in applied.effects


def _record(paths: UnitPaths, invocation: str | None) -> dict[str, Any]:
    """How the start ``invocation`` ended, as it was noted then."""
    record = (store.read_json(paths.ended) or {}).get(invocation or "")
    return record if isinstance(record, dict) else {}
