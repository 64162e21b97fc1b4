"""Is the start that is on trial still the one that runs? Pure decisions over what systemd and the journal say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Optional

from . import canary_mark, clock
from .fatal import Match
from .journal import Entry
from .txn import ARMED, TRYING, Txn
from .unit import UnitState

Lost = tuple[str, str]
"""Cause and one sentence."""


def over(state: UnitState) -> bool:
    """The start named by ``state.invocation`` has ended."""
    return state.down or (state.active == "activating" and state.sub == "auto-restart")


def lost(txn: Txn, state: UnitState, ends: Mapping[str, Any]) -> Lost | None:
    """Cause and text when the watched start is over, else None. ``ends`` are the records of ``ended`` by start.

    ``state`` must have been read before ``txn``: a start is chosen in txn.json before it runs.
    """
    watched = txn.start_invocation if txn.state == ARMED else txn.trial_invocation
    if txn.state in TRYING and watched is None:
        if state.running and state.invocation not in ("", txn.start_invocation, txn.forgiven):
            return "start_failed", "the service runs a start that ddtune did not choose"
        return None
    if not watched or (state.invocation == watched and not over(state)):
        return None
    record = ends.get(watched)
    if not isinstance(record, dict):
        record = {"result": state.result, "status": str(state.exit_status)}
    result, code, status = (record.get(name) for name in ("result", "code", "status"))
    if record.get("asked"):
        by = f" ({record['who']})" if record.get("who") else ""
        return "drift", f"somebody stopped or restarted the service outside of ddtune{by}"
    return _cause(txn, result, code, status), f"the service ended by itself: {result} ({code or 'status'} {status})"


def _cause(txn: Txn, result: str | None, code: str | None, status: str | None) -> str:
    if result == "oom-kill":
        return "killed"
    if txn.ready or txn.state == ARMED:
        return "engine_dead"
    return "bad_flags" if code == "exited" and status == "2" else "start_failed"


def concerns(txn: Txn, entry: Entry, match: Match, canary: Optional[Mapping[str, Any]] = None) -> bool:
    """The line is of the start that is watched, and not of one before it or of somebody else's process.

    ``canary`` is the mark of a graph canary: what may be its doing is nothing against the trial.
    """
    if entry.source == "kernel":
        if match.action:
            return True
        if canary_mark.charged(canary, entry.at, match.pid):
            return False
        return txn.trial_invocation is not None and not _foreign(match.pid, txn.unit)
    watched = txn.start_invocation if txn.state == ARMED else txn.trial_invocation
    return watched is not None and entry.invocation in (watched, None)


def _foreign(pid: int | None, unit: str) -> bool:
    """``pid`` lives and belongs to another service."""
    if pid is None or not os.path.exists(f"/proc/{pid}"):
        return False
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
            return unit not in file.read()
    except OSError:
        return False


def said(text: str, source: str = "systemd") -> dict[str, Any]:
    """One line of evidence of our own."""
    return {"at": clock.wall(), "source": source, "rank": None, "text": text}
