"""The ways forward: from armed to committed, and what a start of the unit runs on the way."""

from __future__ import annotations

from dataclasses import replace

from . import txn_events as ev
from .txn_back import Step, end, quarantine, roll_back, timed, wrong_state
from .txn_model import (
    ARMED,
    COMMITTED,
    COMMITTING,
    LIFTED,
    LIVE,
    ROLLED_BACK,
    SOAK,
    TRIAL,
    TRYING,
    VISIT,
    Txn,
    busy,
    expired,
    who,
)


def arm(txn: Txn | None, event: ev.Arm) -> Step:
    if txn is not None and _again(txn, event.txn):
        return txn, ()
    if txn is not None and busy(txn):
        until = min(txn.lease_until, txn.confirm_deadline)
        detail = {
            "op": txn.op,
            "state": txn.state,
            "owner": dict(txn.owner),
            "since": txn.wall_at,
            "until": txn.wall_at + until - txn.armed_at,
        }
        text = f"{who(txn)} is changing {txn.unit} ({txn.op}, {txn.state} for {event.at - txn.armed_at:.0f} s)"
        if txn.state in LIVE:
            text += f"; the host decides in {max(0.0, until - event.at):.0f} s unless they renew"
        return txn, (ev.Refused("busy", text, detail),)
    new = event.txn
    if event.known or (txn is not None and txn.op == new.op):
        # Whoever holds an op may move it, so it must never come to mean another transaction.
        return txn, (ev.Refused("unknown", f"{new.op} was begun on this host already: plan again"),)
    if new.state != ARMED or new.settled or new.tries_left < 1 or expired(new, event.at):
        return txn, (ev.Refused("unknown", "a transaction begins ARMED, with a try and time left"),)
    return replace(new, times={"armed": event.at}), (ev.Record("armed"),)


def _again(txn: Txn, asked: Txn) -> bool:
    """The very same was asked before, and its answer may have been lost on the way: nothing has come of it yet."""
    names = ("op", "kind", "owner", "candidate", "boot_id")
    return txn.state == ARMED and all(getattr(txn, name) == getattr(asked, name) for name in names)


def reboot(txn: Txn | None, event: ev.Reboot) -> Step:
    if txn is None or txn.boot_id == event.boot_id or txn.settled:
        return txn, ()
    if txn.state == COMMITTING:
        return finish(txn, ev.Finish(event.at, txn.op))
    text = "the host was restarted while the trial ran"
    if txn.state not in LIVE:
        return replace(txn, settled=True), (ev.DropTrial(), *quarantine(txn), end(txn, text))
    new = replace(txn, state=ROLLED_BACK, cause="killed", settled=True)
    return new, (ev.DropTrial(), end(new, text))


def swap(txn: Txn, event: ev.Swap) -> Step:
    if txn.state == TRIAL and txn.trial_invocation is None:
        return txn, ()
    if txn.state != ARMED:
        return wrong_state(txn, "swapped")
    new = replace(txn, state=TRIAL, times=timed(txn, swapped=event.at))
    return new, (ev.SetTrial(txn.candidate), ev.Record("swapped"))


def _start_deadline(txn: Txn, at: float) -> float | None:
    if txn.start_deadline is None and txn.start_deadline_s is not None:
        return at + txn.start_deadline_s
    return txn.start_deadline


def mark(txn: Txn, event: ev.Mark) -> Step:
    if txn.state not in LIVE:
        return wrong_state(txn, f"marked {event.name}")
    if event.name == LIFTED and not txn.ready:
        # The quick gate, whose end it tells, asks a candidate that is ready.
        return wrong_state(txn, "lifted before it is ready")
    deadline = _start_deadline(txn, event.at) if event.name == "started" else txn.start_deadline
    return replace(txn, times=timed(txn, **{event.name: event.at}), start_deadline=deadline), ()


def chosen(txn: Txn, event: ev.Chosen) -> Step:
    if txn.state in TRYING:
        if txn.trial_invocation == event.invocation:
            return txn, (ev.Launch("trial"),)
        # A trial that served and starts again has crashed, however many tries are left.
        if txn.tries_left > 0 and not txn.ready:
            new = replace(
                txn,
                tries_left=txn.tries_left - 1,
                trial_invocation=event.invocation,
                start_deadline=_start_deadline(txn, event.at),
                times=timed(txn, started=event.at),
            )
            return new, (ev.Launch("trial"),)
        cause = "drift" if event.asked else "engine_dead" if txn.ready else "start_failed"
        new, effects = roll_back(txn, event.at, cause, event.evidence if cause == "drift" else (), cause != "drift")
        return replace(new, stable_invocation=event.invocation), (*effects, ev.Launch("stable"))
    if busy(txn):
        txn = replace(txn, stable_invocation=event.invocation)
    return txn, (ev.Launch("stable"),)


def ready(txn: Txn, event: ev.Ready) -> Step:
    if txn.state not in TRYING or txn.trial_invocation is None:
        return wrong_state(txn, "ready")
    return replace(txn, ready=True, times=timed(txn, ready=event.at)), ()


def soak(txn: Txn, event: ev.Soak) -> Step:
    if txn.state not in TRYING or not txn.ready:
        return wrong_state(txn, "soaked")
    return replace(txn, state=SOAK, times=timed(txn, soak=event.at)), ()


def renew(txn: Txn, event: ev.Renew) -> Step:
    if txn.state in LIVE:
        txn = replace(txn, lease_until=event.at + txn.lease_s)
    return txn, ()


def confirm(txn: Txn, event: ev.Confirm) -> Step:
    if txn.state in (COMMITTING, COMMITTED):
        return txn, ()
    if txn.kind == VISIT:
        return txn, (ev.Refused("unknown", f"{txn.op} is a visit, which always ends on stable"),)
    if txn.state not in TRYING or not txn.ready:
        return wrong_state(txn, "confirmed")
    if not event.invocation == event.running == txn.trial_invocation:
        text = "the service was started again since it was judged, so nothing was confirmed"
        return txn, (ev.Refused("engine_dead", text),)
    return replace(txn, state=COMMITTING, times=timed(txn, confirmed=event.at)), ()


def finish(txn: Txn, event: ev.Finish) -> Step:
    if txn.state == COMMITTED:
        return txn, ()
    if txn.state != COMMITTING:
        return wrong_state(txn, "finished")
    new = replace(txn, state=COMMITTED, settled=True, times=timed(txn, ended=event.at))
    return new, (ev.Commit(txn.candidate, txn.stable, txn.probation_s), end(new), ev.DropTrial())
