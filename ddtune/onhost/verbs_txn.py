"""The helper's verbs that move a transaction. Each is one compare-and-swap; the guard alone carries out a rollback."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from . import clock, inspect_process, ledger, outside, releases, residue, schema, traffic, unit_files
from .alive import guard_alive, wait_for_guard
from .context import Answer, Host, RefusalError
from .paths import UnitPaths
from .room import check_room
from .txn_events import Abort, Confirm, Event, Fail, Mark, Ready, Renew, Settle, Soak, Swap
from .txn_model import AHEAD, ARMED, LIFTED, TRYING, Txn, busy, to_json
from .unit import SystemctlError, UnitState

EVIDENCE = schema.many(
    schema.record(
        {
            "at": schema.maybe(schema.number(0, 1e11)),
            "source": schema.maybe(schema.cleaned(100)),
            "rank": schema.maybe(schema.cleaned(100)),
            "text": schema.cleaned(4000),
        }
    ),
    200,
)

OP: schema.Fields = {"op": schema.op}
CONFIRM: schema.Fields = {"op": schema.op, "invocation": schema.name}
FAIL: schema.Fields = {"op": schema.op, "cause": schema.name, "evidence": schema.maybe(EVIDENCE, ())}
ABORT: schema.Fields = {
    "op": schema.maybe(schema.op),
    "cause": schema.maybe(schema.one_of("aborted", "operator_request"), "aborted"),
}
SETTLE: schema.Fields = {
    "op": schema.op,
    "ok": schema.flag,
    "cause": schema.maybe(schema.name, "unknown"),
    "evidence": schema.maybe(EVIDENCE, ()),
}

_KILL_S = 10.0
GUARD_LIMIT_S = 5.0


def applied(paths: UnitPaths, make: Callable[[float], Event]) -> Txn:
    """The transaction after the event; raises ``RefusalError`` when it was not legal."""
    done = ledger.apply(paths, make)
    if done.refused or done.txn is None:
        refused = done.refused
        raise RefusalError(
            refused.cause if refused else "unknown",
            refused.message if refused else "no transaction is running on this host",
            {**(refused.detail if refused else {}), "txn": to_json(done.txn) if done.txn else None},
        )
    return done.txn


def swap(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """From here on a start of the unit runs the candidate, so a guard must live."""
    paths, op = host.adopted(unit), fields["op"]
    known = ledger.load(paths)
    if known is not None and known.op == op and busy(known) and not wait_for_guard(paths, op, GUARD_LIMIT_S):
        raise RefusalError("unknown", f"the guard of {op} is not alive, so nothing was changed: abort it and try again")
    if known is not None and known.op == op and known.state == ARMED and known.kind in AHEAD:
        _check_files(host, paths)
    return {"txn": to_json(applied(paths, lambda at: Swap(at, op)))}


def stop(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Stops the unit as systemd stops it, and kills what is left of it after the transaction's limit."""
    paths = host.adopted(unit)
    txn = live(paths, fields["op"], TRYING, "stopped")
    begun = clock.boottime()
    if traffic.held(txn):
        try:
            traffic.put(host.install, txn)
        except traffic.CannotHoldError as error:
            raise RefusalError("unsupported_unit", f"nothing was stopped: {error}") from None
    host.systemctl.stop(unit)
    killed = not _down(host, unit, txn.stop_timeout_s)
    if killed:
        host.systemctl.kill(unit)
        if not _down(host, unit, _KILL_S):
            raise RefusalError("residue", f"{unit} did not end when it was killed: a process may hang in the kernel")
    applied(paths, lambda at: Mark(at, txn.op, "stopped"))
    return {"seconds": round(clock.boottime() - begun, 3), "killed": killed}


def start(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Asks systemd to start the unit and does not wait; the start deadline runs from here."""
    paths = host.adopted(unit)
    txn = live(paths, fields["op"], TRYING, "started")
    if host.systemctl.state(unit).down:
        left = residue.clear(host.install, paths, txn.api_port)
        if left:
            raise RefusalError(left.cause, left.action)
    txn = applied(paths, lambda at: Mark(at, fields["op"], "started"))
    host.systemctl.reset_failed(unit)
    host.systemctl.start(unit)
    return {"txn": to_json(txn)}


def renew(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Keeps the lease of an undecided transaction; otherwise it only says how it stands."""
    paths = host.adopted(unit)
    txn = applied(paths, lambda at: Renew(at, fields["op"]))
    call_guard(host, paths, txn)
    return {"txn": to_json(txn), "boottime": clock.boottime()}


def ready(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """The candidate has answered a checked generation."""
    return {"txn": to_json(applied(host.adopted(unit), lambda at: Ready(at, fields["op"])))}


def lift(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """The quick gate has passed: other machines reach the candidate from here on."""
    paths = host.adopted(unit)
    txn = applied(paths, lambda at: Mark(at, fields["op"], LIFTED))
    return {"txn": to_json(txn), "lifted": traffic.lift(host.install, paths)}


def soak(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """The gate has passed and the soak begins."""
    return {"txn": to_json(applied(host.adopted(unit), lambda at: Soak(at, fields["op"])))}


def confirm(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Commits, if what runs now is the very start that was judged."""
    paths, op, judged = host.adopted(unit), fields["op"], fields["invocation"]
    state, known = host.systemctl.state(unit), ledger.load(paths)
    if known is not None and known.op == op and known.state in TRYING:
        _check_runs(paths, known, state, judged)
        # Behind the intent there is no way back, so what it writes must fit.
        check_room(paths.state)
    return {"txn": to_json(applied(paths, lambda at: Confirm(at, op, judged, state.invocation)))}


def fail(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Decides for the rollback, which the guard carries out."""
    paths, evidence = host.adopted(unit), tuple(fields["evidence"])
    txn = applied(paths, lambda at: Fail(at, fields["op"], fields["cause"], evidence))
    call_guard(host, paths, txn)
    return {"txn": to_json(txn)}


def abort(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Ends the transaction ``op``, or whichever runs, by going back to stable."""
    paths = host.adopted(unit)
    txn = applied(paths, lambda at: Abort(at, fields["op"], fields["cause"]))
    call_guard(host, paths, txn)
    return {"txn": to_json(txn)}


def settle(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """What the controller found of stable after a rollback; not ``ok`` makes it a failed one."""
    paths, evidence = host.adopted(unit), tuple(fields["evidence"])
    txn = applied(paths, lambda at: Settle(at, fields["op"], fields["ok"], fields["cause"], evidence))
    # Its guard has left, and only a guard stops what cannot serve.
    call_guard(host, paths, txn)
    return {"txn": to_json(txn)}


def call_guard(host: Host, paths: UnitPaths, txn: Txn | None) -> None:
    """Start the guard of ``txn`` where it has none: its helper died before it could, or somebody stopped it.

    One that systemd is about to start again is left to systemd.
    """
    if txn is not None and busy(txn) and not guard_alive(paths, txn.op):
        with suppress(SystemctlError):
            host.systemctl.run_guard(paths.unit, txn.op)


def live(paths: UnitPaths, op: str, states: tuple[str, ...], wanted: str) -> Txn:
    """The transaction ``op``, refused unless it stands in one of ``states``."""
    txn = applied(paths, lambda at: Renew(at, op))
    if txn.state not in states:
        raise RefusalError(txn.cause or "unknown", f"{op} cannot be {wanted}: it is {txn.state}", {"txn": to_json(txn)})
    return txn


def _check_runs(paths: UnitPaths, txn: Txn, state: UnitState, judged: str) -> None:
    """What is confirmed is a main process that runs the candidate and was never restarted."""
    process = inspect_process.read_process(state.main_pid)
    if not state.running or state.n_restarts or process is None:
        detail = f"{state.active} ({state.sub}), {state.n_restarts} restarts"
        raise RefusalError("engine_dead", f"{paths.unit} is {detail}, so nothing was confirmed")
    if state.invocation != judged:
        raise RefusalError(
            "engine_dead", f"{paths.unit} was started again since it was judged, so nothing was confirmed"
        )
    if list(process.argv) != releases.read(paths, txn.candidate)["argv"]:
        raise RefusalError("drift", f"the main process of {paths.unit} does not run the release that was judged")


def _check_files(host: Host, paths: UnitPaths) -> None:
    """Refuses what somebody has edited since the arm: it would be judged along with the candidate."""
    if not unit_files.touched(paths):
        return
    found = outside.changed(host, paths, host.systemctl.show(paths.unit, *outside.PROPERTIES))
    if found:
        raise RefusalError("drift", f"{found['text']}, so nothing was stopped", {"files": found["files"]})


def _down(host: Host, unit: str, limit_s: float) -> bool:
    end = time.monotonic() + limit_s
    while not host.systemctl.state(unit).down:
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
