"""The ways back: every decision against a candidate, and what the guard does about it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Optional, Tuple

from . import txn_events as ev
from .txn_model import (
    COMMITTED,
    DECIDED,
    HOST_ACTION_REQUIRED,
    LIVE,
    ROLLBACK_FAILED,
    ROLLED_BACK,
    TRYING,
    Restore,
    Txn,
)

Step = Tuple[Optional[Txn], Tuple[ev.Effect, ...]]

BLAMELESS = frozenset(
    (
        "aborted", "busy", "disk_full", "drift", "gate_inconclusive", "gpu_lost", "killed", "lease_lost", "link_lost",
        "nvls_fabric", "operator_request", "port_in_use", "residue", "unknown", "unreachable", "xid_hardware",
    )
)  # fmt: skip
"""Causes that say nothing about the candidate, so that it is not quarantined for them."""

_NOT_YET = re.compile(r"Cuda failure 802\b|system not yet initialized")

WEAK = frozenset(("crash_loop", "engine_dead", "killed", "start_failed", "unknown", "xid_app"))
"""Causes that a fatal line, read a moment later, explains better."""


def idle() -> ev.Refused:
    return ev.Refused("unknown", "no transaction is running on this host")


def wrong_state(txn: Txn, wanted: str) -> Step:
    because = f" ({txn.cause})" if txn.cause else ""
    return txn, (ev.Refused(txn.cause or "unknown", f"{txn.op} cannot be {wanted}: it is {txn.state}{because}"),)


def timed(txn: Txn, **instants: float) -> dict[str, float]:
    """``times`` with ``instants`` added; the first instant of a step stays."""
    return {**instants, **txn.times}


def roll_back(
    txn: Txn, at: float, cause: str, evidence: tuple[ev.Evidence, ...], blamed: bool, restore: bool = False
) -> tuple[Txn, tuple[ev.Effect, ...]]:
    """Decide against the candidate. A unit that was never touched is left alone unless ``restore``."""
    touched = txn.state in TRYING or restore
    new = replace(
        txn,
        state=ROLLED_BACK,
        cause=cause,
        evidence=txn.evidence + tuple(evidence),
        blamed=blamed,
        settled=not touched,
        restore=Restore("stop", 1, at) if touched else None,
        times=txn.times if touched else timed(txn, ended=at),
    )
    return new, (ev.DropTrial(), *(() if touched else (end(new),)))


def quarantine(txn: Txn) -> tuple[ev.Effect, ...]:
    """Only what ran, is not stable, and can be blamed; told at the end, when no fault of the hardware has turned up."""
    ran = txn.trial_invocation is not None and txn.candidate != txn.stable
    if not (txn.blamed and ran and txn.cause and txn.cause not in BLAMELESS and txn.state != HOST_ACTION_REQUIRED):
        return ()
    return (ev.Quarantine(txn.candidate, txn.cause),)


def end(txn: Txn, text: str = "") -> ev.Record:
    """The one line that closes the op in the history."""
    outcome = txn.state.lower()
    event = "aborted" if txn.cause == "aborted" and txn.state == ROLLED_BACK else outcome
    return ev.Record(event, outcome, txn.cause, text or txn.action or _because(txn))


def _because(txn: Txn) -> str:
    """Why the transaction ended as it did, in one sentence."""
    if txn.state == COMMITTED:
        return f"{txn.candidate_profile or 'the candidate'} passed its gate and is stable now"
    why = {
        "lease_lost": f"nobody renewed the lease of {txn.lease_s:g} s",
        "deadline_expired": "it was not confirmed before its deadline",
        "start_hang": "it was not ready before its start deadline",
        "aborted": "an operator aborted it",
        "operator_request": "an operator asked for stable",
        "drift": "somebody stopped or restarted the service outside of ddtune",
    }.get(txn.cause or "")
    told = txn.evidence[0].get("text") if txn.evidence else None
    if txn.cause == "drift" and "swapped" not in txn.times:
        # An edit of the unit's files ends it as well, before anything has run.
        why = told or why
    return why or str(told or txn.cause or "")


def fail(txn: Txn, event: ev.Fail) -> Step:
    if txn.state in LIVE:
        return roll_back(txn, event.at, event.cause, event.evidence, True)
    return (txn, ()) if txn.state in DECIDED and txn.state != COMMITTED else wrong_state(txn, "failed")


def abort(txn: Txn, event: ev.Abort) -> Step:
    if txn.state in LIVE:
        return roll_back(txn, event.at, event.cause, (), False)
    if event.op is None and txn.settled:
        return txn, (idle(),)
    return (txn, ()) if txn.state in DECIDED and txn.state != COMMITTED else wrong_state(txn, "aborted")


def _passing(event: ev.Fatal) -> bool:
    """The fabric was not ready yet, which the next start finds in order."""
    return any(_NOT_YET.search(str(entry.get("text"))) for entry in event.evidence)


def fatal(txn: Txn, event: ev.Fatal) -> Step:
    again = txn.state in TRYING and txn.trial_invocation and not (txn.ready or txn.forgiven) and txn.tries_left > 0
    if again and _passing(event):
        # Nobody is blamed for the first time: the guard starts the same release once more.
        evidence = txn.evidence + event.evidence
        return replace(txn, forgiven=txn.trial_invocation, trial_invocation=None, evidence=evidence), ()
    if txn.state in LIVE:
        return roll_back(txn, event.at, event.cause, event.evidence, True, restore=True)
    if txn.state == ROLLED_BACK and not txn.settled and txn.cause in WEAK and event.cause not in WEAK:
        return replace(txn, cause=event.cause, blamed=True, evidence=txn.evidence + event.evidence), ()
    return wrong_state(txn, "ended by a log line")


def ended(txn: Txn, event: ev.Ended) -> Step:
    if txn.state not in LIVE:
        return wrong_state(txn, "ended by the unit")
    return roll_back(txn, event.at, event.cause, event.evidence, True, restore=event.cause != "drift")


def host_action(txn: Txn, event: ev.HostAction) -> Step:
    if txn.state not in LIVE and not (txn.state == ROLLED_BACK and not txn.settled):
        return wrong_state(txn, "handed to a person")
    new, effects = (txn, ()) if txn.state == ROLLED_BACK else roll_back(txn, event.at, event.cause, (), False)
    new = replace(
        new,
        state=HOST_ACTION_REQUIRED,
        cause=event.cause,
        action=event.action,
        evidence=new.evidence + event.evidence,
    )
    kept = tuple(effect for effect in effects if not isinstance(effect, ev.Record))
    closed = (end(new),) if new.settled else ()
    return new, (*kept, *closed, ev.Shout(f"{txn.unit}: {event.action}"))


def restoring(txn: Txn, event: ev.Restoring) -> Step:
    if txn.restore is None or txn.settled:
        return wrong_state(txn, "brought back")
    times = {"stop": {"rollback_begun": event.at}, "start": {"rollback_stopped": event.at}}.get(event.phase, {})
    restore = replace(txn.restore, phase=event.phase, at=event.at)
    # Stopped: whatever start of stable comes next is a new one.
    started = None if event.phase == "start" else txn.stable_invocation
    return replace(txn, restore=restore, stable_invocation=started, times=timed(txn, **times)), ()


def restored(txn: Txn, event: ev.Restored) -> Step:
    checking = txn.restore is not None and txn.restore.phase == "check"
    if txn.state not in (ROLLED_BACK, HOST_ACTION_REQUIRED) or txn.settled or not checking:
        return wrong_state(txn, "restored")
    return _settled(txn, event.at, serving=event.at)


def restore_failed(txn: Txn, event: ev.RestoreFailed) -> Step:
    if txn.restore is None or txn.settled or txn.state == ROLLBACK_FAILED:
        return wrong_state(txn, "failed to be restored")
    txn = replace(txn, evidence=txn.evidence + event.evidence)
    assert txn.restore is not None
    if txn.state == HOST_ACTION_REQUIRED:
        return replace(txn, restore=replace(txn.restore, phase="give_up", at=event.at)), ()
    # A failed start of stable as the candidate has used the first of its two tries.
    tries = 1 if txn.candidate == txn.stable and txn.trial_invocation else 2
    if txn.restore.tries < tries and not event.final:
        return replace(txn, restore=Restore("stop", txn.restore.tries + 1, event.at)), ()
    return _rollback_failed(txn, event.at, event.cause)


def _rollback_failed(txn: Txn, at: float, cause: str) -> Step:
    tries = txn.restore.tries if txn.restore else 0
    new = replace(txn, state=ROLLBACK_FAILED, settled=False, restore=Restore("give_up", tries, at))
    text = f"{txn.unit}: stable does not serve after the rollback ({cause}); the service is stopped, a person must act"
    return new, (ev.Shout(text),)


def gave_up(txn: Txn, event: ev.GaveUp) -> Step:
    if txn.settled or txn.restore is None or txn.restore.phase != "give_up":
        return wrong_state(txn, "given up")
    return _settled(txn, event.at)


def settle(txn: Txn, event: ev.Settle) -> Step:
    if txn.state != ROLLED_BACK or not txn.settled:
        return wrong_state(txn, "settled")
    if event.ok:
        return txn, ()
    return _rollback_failed(replace(txn, evidence=txn.evidence + event.evidence), event.at, event.cause)


def _settled(txn: Txn, at: float, **instants: float) -> Step:
    new = replace(txn, settled=True, times=timed(txn, ended=at, **instants))
    return new, (*quarantine(new), end(new))
