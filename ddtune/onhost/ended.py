"""``ended UNIT``, behind each stop, as root: how did this start end, and did somebody ask for it?"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

from . import clock, fatal, late, store
from .journal import parse
from .paths import Install, Paths, UnitPaths, load_install
from .shout import shout
from .unit import Systemctl, SystemctlError

KEPT = 8


def main(args: list[str]) -> int:
    """Write the record of this end; 0 when it stands."""
    install = load_install()
    paths = Paths(install.root).unit(args[0])
    try:
        record = describe(Systemctl(install), paths.unit)
        invocation = os.environ.get("INVOCATION_ID", "")
        if record["asked"] and on_trial(paths, invocation):
            from . import who

            record["who"] = who.acted(install, paths.unit)
        remember(paths, invocation, record)
        if not record["asked"] and not hardware(install, paths) and late.mark_ended(paths, record):
            print(f"ddtune: {paths.unit} ended unasked in its probation", file=sys.stderr)
    except Exception as error:  # noqa: BLE001 (a fault of ddtune must not fail the service)
        shout(f"{args[0]}: ended failed ({error})")
        return 1
    return 0


def describe(systemctl: Systemctl, unit: str) -> dict[str, Any]:
    """How the service ended, as systemd tells the programs behind a stop.

    The unit's job tells; status and signal do not, since an engine kills itself at the end of an orderly stop too.
    When systemd does not answer, the end counts as asked for: nothing may follow from a guess.
    """
    try:
        job = systemctl.job(unit)
        asked = asks(job)
    except SystemctlError:
        job, asked = None, True
    return {
        "at": clock.wall(),
        "boottime": clock.boottime(),
        "boot_id": clock.boot_id(),
        "asked": asked,
        "job": job,
        "result": os.environ.get("SERVICE_RESULT"),
        "code": os.environ.get("EXIT_CODE"),
        "status": os.environ.get("EXIT_STATUS"),
    }


def on_trial(paths: UnitPaths, invocation: str) -> bool:
    """The start ``invocation`` is on trial, and ddtune ends none that is: somebody will ask who did."""
    found = store.read_json(paths.txn) or {}
    trying = not found.get("settled") and found.get("state") in ("TRIAL", "SOAK")
    return trying and bool(invocation) and found.get("trial_invocation") == invocation


def asks(job: str) -> bool:
    """Whether ``job``, seen at an end, is somebody's wish for that end.

    A start that is ``running`` is the one that has just failed; one that waits took the place of a stop.
    """
    kind, _, state = job.partition(" ")
    return kind in ("stop", "restart", "try-restart") or (kind == "start" and state == "waiting")


def remember(paths: UnitPaths, invocation: str, record: dict[str, Any]) -> None:
    """Keep ``record`` under ``invocation``; the oldest go."""
    paths.ensure_run()
    with store.locked(paths):
        records = store.read_json(paths.ended) or {}
        records[invocation] = record
        newest = sorted(records, key=lambda name: records[name].get("boottime", 0))[-KEPT:]
        store.write_json(paths.ended, {name: records[name] for name in newest})


def newest(paths: UnitPaths, invocation: str | None = None) -> dict[str, Any] | None:
    """The record of ``invocation``, or else of the last end on this boot."""
    records = store.read_json(paths.ended) or {}
    if invocation in records:
        return dict(records[invocation])
    here = [record for record in records.values() if record.get("boot_id") == clock.boot_id()]
    return max(here, key=lambda record: record.get("boottime", 0), default=None)


def hardware(install: Install, paths: UnitPaths) -> bool:
    """The kernel has reported a GPU fault since this start, so that its end says nothing about the release."""
    try:
        since = os.stat(paths.chosen).st_mtime
    except OSError:
        return False
    argv = [install.journalctl, "--no-pager", "-o", "json", "-k", "-n", "500"]
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False)
        for line in done.stdout.splitlines():
            entry = parse(line, "kernel")
            found = fatal.xid(entry) if entry and entry.at >= since else None
            if found and found.action:
                return True
    return False
