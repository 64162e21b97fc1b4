"""What must hold before a transaction begins, and the guard that must be seen before it goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from . import clock, drop_in, ledger, outside, pins, releases, schema, store, traffic, who
from .alive import guard_alive, wait_for_guard
from .api import ApiError, read_key
from .context import Answer, Host, RefusalError
from .paths import UnitPaths
from .room import check_room
from .txn_events import Arm, Fail
from .txn_model import AHEAD, KINDS, Txn, to_json
from .unit import SystemctlError, guard_unit
from .verbs_txn import GUARD_LIMIT_S, applied, call_guard

GUARD_BROUGHT_S = 2.0

ARM: schema.Fields = {
    "op": schema.op,
    "kind": schema.one_of(*KINDS),
    "owner": schema.OWNER,
    "candidate": schema.sha,
    "lease_s": schema.number(1, 86400),
    "start_deadline_s": schema.maybe(schema.number(1, 7 * 86400)),
    "confirm_deadline_s": schema.number(1, 7 * 86400),
    "tries": schema.maybe(schema.integer(1, 10), 1),
    "fatal_patterns": schema.maybe(schema.many(schema.record({"cause": schema.name, "regex": schema.regex}), 200), []),
    "canary": schema.maybe(
        schema.record(
            {"path": schema.text(200), "body": schema.document(64 * 1024), "expect": schema.maybe(schema.word())}
        )
    ),
    "stop_grace_s": schema.maybe(schema.number(0, 3600), 5.0),
    "stop_timeout_s": schema.maybe(schema.number(1, 86400), 45.0),
    "restore_s": schema.maybe(schema.number(1, 7 * 86400), 1800.0),
    "probation_s": schema.maybe(schema.number(0, 366 * 86400), 0.0),
    "api_port": schema.maybe(schema.integer(1, 65535)),
    "api_key_file": schema.maybe(schema.path),
    "force": schema.maybe(schema.flag, False),
    "traffic": schema.maybe(schema.one_of("open", "held"), "open"),
}


def arm(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Begins a transaction and answers once its guard is seen alive; without a guard nothing has begun.

    Asked again by the same owner it answers as it did.
    """
    paths = host.adopted(unit)
    drafted = draft(host, paths, fields)
    try:
        txn = applied(paths, lambda at: event(paths, drafted, at))
    except RefusalError as error:
        if error.cause == "busy":
            call_guard(host, paths, ledger.load(paths))
        raise
    try:
        guard = start_guard(host, paths, txn.op)
    except RefusalError as error:
        said = {"at": clock.wall(), "source": "systemd", "rank": None, "text": str(error)}
        applied(paths, lambda at: Fail(at, txn.op, "unknown", (said,)))
        raise
    return {"txn": to_json(txn), "guard": guard, "boottime": clock.boottime()}


def draft(host: Host, paths: UnitPaths, fields: Mapping[str, Any]) -> Txn:
    """The transaction to begin, its times still counted from 0. Raises ``RefusalError`` unless all is in order."""
    candidate, stable = fields["candidate"], releases.stable(paths)
    if stable is None:
        raise RefusalError("drift", f"{paths.stable} names no release: unadopt and adopt {paths.unit} again")
    _check_readable(paths, stable, "drift")
    _check_readable(paths, candidate, "unknown")
    known_bad = releases.quarantined(paths, candidate)
    if known_bad and not fields["force"]:
        raise RefusalError("quarantined", _quarantined(paths, candidate, known_bad), {"quarantine": known_bad})
    port, key_file = pins.pinned(paths, fields["api_port"], fields["api_key_file"])
    try:
        # The guard needs it to judge stable after a rollback, so it must be there before anything begins.
        read_key(key_file, ())
    except ApiError as error:
        raise RefusalError("unknown", str(error)) from None
    if fields["traffic"] == "held":
        check_can_hold(host, paths.unit, port)
    paths.ensure_run()
    for folder in (paths.state, paths.run):
        check_room(folder)
    props = host.systemctl.show(
        paths.unit, *{*drop_in.PROPERTIES, *outside.PROPERTIES}, "StartLimitBurst", "InvocationID"
    )
    site = store.read_json(paths.site) or {}
    changed = drop_in.drift(host.install, paths, props, drop_in.stop_timeout_s(site))
    if changed:
        by = who.acted(host.install, paths.unit, outside.WHO_S)
        raise RefusalError("drift", f"{changed} ({by})" if by else changed)
    found = outside.changed(host, paths, props) if fields["kind"] in AHEAD else None
    if found:
        accepted = "ddtune adopt --upgrade takes the files as they are"
        raise RefusalError("drift", f"{found['text']}. Take it back, or {accepted}", {"files": found["files"]})
    return Txn(
        op=fields["op"],
        kind=fields["kind"],
        unit=paths.unit,
        owner=fields["owner"],
        boot_id=clock.boot_id(),
        armed_at=0.0,
        wall_at=clock.wall(),
        candidate=candidate,
        stable=stable,
        candidate_profile=releases.profile(paths, candidate),
        stable_profile=releases.profile(paths, stable),
        lease_s=fields["lease_s"],
        lease_until=fields["lease_s"],
        start_deadline_s=fields["start_deadline_s"],
        confirm_deadline=fields["confirm_deadline_s"],
        tries_left=_below_burst(fields["tries"], props.get("StartLimitBurst")),
        start_invocation=props.get("InvocationID") or None,
        journal_cursor=_cursor(host, paths.unit),
        fatal_patterns=tuple(fields["fatal_patterns"]),
        stop_grace_s=fields["stop_grace_s"],
        stop_timeout_s=fields["stop_timeout_s"],
        restore_s=fields["restore_s"],
        api_port=port,
        api_key_file=key_file,
        canary=fields["canary"],
        probation_s=fields["probation_s"],
        force=fields["force"],
        traffic=fields["traffic"],
    )


def check_can_hold(host: Host, unit: str, port: int) -> None:
    """Refuses a host on which nothing can keep other machines from the trial."""
    try:
        traffic.check(host.install, unit, port)
    except traffic.CannotHoldError as error:
        raise RefusalError("unsupported_unit", f'traffic = "held" cannot be kept on this host: {error}') from None


def event(paths: UnitPaths, txn: Txn, at: float) -> Arm:
    """The event that begins ``txn`` at boottime ``at``; made under the unit's lock, so that no line comes between.

    Raises ``RefusalError`` where somebody's commit came between: ``txn`` would lead back to what is stable no more.
    """
    if releases.stable(paths) != txn.stable:
        raise RefusalError("busy", f"another release became stable on {paths.unit} at this very moment: plan again")
    begun = replace(txn, armed_at=at, lease_until=at + txn.lease_until, confirm_deadline=at + txn.confirm_deadline)
    return Arm(at, begun, any(line.get("op") == txn.op for line in releases.history(paths)))


def start_guard(host: Host, paths: UnitPaths, op: str) -> Answer:
    """Starts the guard of ``op``, unless it lives, and waits until it is seen alive. Raises ``RefusalError``."""
    try:
        if not guard_alive(paths, op):
            host.systemctl.run_guard(paths.unit, op)
    except SystemctlError as error:
        # Somebody else's call, which brings a guard that is missing, may have been faster by a moment.
        if not wait_for_guard(paths, op, GUARD_BROUGHT_S):
            said = f"the guard could not be started, so nothing was changed: {error}"
            raise RefusalError("unknown", said) from None
    if wait_for_guard(paths, op, GUARD_LIMIT_S):
        found = store.read_json(paths.guard) or {}
        return {"unit": guard_unit(op), "pid": found.get("pid"), "at": found.get("at")}
    raise RefusalError(
        "unknown",
        f"the guard was not seen alive within {GUARD_LIMIT_S:g} s, so nothing was changed:"
        f" see journalctl -u {guard_unit(op)}",
    )


def _check_readable(paths: UnitPaths, sha: str, cause: str) -> None:
    try:
        releases.read(paths, sha)
    except releases.ReleaseError as error:
        raise RefusalError(cause, str(error)) from None


def _quarantined(paths: UnitPaths, candidate: str, found: Mapping[str, Any]) -> str:
    name = releases.profile(paths, candidate) or candidate[:12]
    return f"{name} is in quarantine on this host since {found.get('op')}: {found.get('cause')}"


def _below_burst(tries: int, burst: str | None) -> int:
    """Starts that the unit's own start limit lets us make."""
    limit = int(burst) - 1 if burst and burst.isdecimal() and int(burst) else tries
    return max(1, min(tries, limit))


def _cursor(host: Host, unit: str) -> str | None:
    """Where the unit's journal ends now; None where it does not say, and then the guard looks at all of this boot."""
    command = [host.install.journalctl, "--no-pager", "-u", unit, "-n", "0", "--show-cursor"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=15, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    mark = "-- cursor: "
    return next((line[len(mark) :].strip() for line in done.stdout.splitlines() if line.startswith(mark)), None)
