"""What a start finds undone: an unasked end in probation, and transactions that a reboot cut off."""

from __future__ import annotations

from typing import Any

from . import clock, releases, store
from .paths import UnitPaths


def probation(paths: UnitPaths) -> dict[str, Any] | None:
    """The probation that runs now, or None: its time is over, it was closed, or it is of another release."""
    found = store.read_json(paths.probation)
    if found is None or clock.wall() >= found.get("until", 0) or found.get("release") != releases.stable(paths):
        return None
    return found


def mark_ended(paths: UnitPaths, record: dict[str, Any]) -> bool:
    """Note in the probation that the service ended unasked; False when no probation runs or a transaction does."""
    with store.locked(paths):
        found = probation(paths)
        if found is None or found.get("ended") or transacting(paths):
            return False
        store.write_json(paths.probation, {**found, "ended": record})
    return True


def transacting(paths: UnitPaths) -> bool:
    """A transaction is not settled, so that the guard answers for the service."""
    found = store.read_json(paths.txn)
    return found is not None and not found.get("settled")


def go_to_previous(paths: UnitPaths) -> str | None:
    """Where the probation is marked, make ``previous`` stable again, once, and give its name."""
    marked = store.read_json(paths.probation)
    if not marked or not marked.get("ended"):
        return None
    with store.locked(paths, 2.0):
        found = probation(paths)
        if found is None:
            store.remove(paths.probation)
            return None
        back = found["previous"]
        releases.read(paths, back)
        text = "the service ended unasked in its probation"
        ended = found["ended"]
        said = f"{text}: {ended.get('result')} ({ended.get('code')} {ended.get('status')})"
        evidence = [{"at": ended.get("at"), "source": "systemd", "rank": None, "text": said}]
        verdict = {"op": found.get("op"), "cause": "engine_dead", "evidence": evidence}
        line = {
            **verdict,
            "event": "late_crash",
            "outcome": "rolled_back",
            "from": {"profile": found.get("profile"), "release": found["release"]},
            "to": {"profile": releases.profile(paths, back), "release": back},
            "owner": None,
            "text": text,
        }
        releases.add_history(paths, line)
        releases.quarantine(paths, found["release"], {**verdict, "profile": found.get("profile")})
        releases.set_stable(paths, back)
        store.remove(paths.probation)
        # What was stable before that is not known; a second late crash has nowhere to go.
        store.remove(paths.previous)
    return str(back)


def close_open_ops(paths: UnitPaths) -> None:
    """Write the end of each op that another boot left open.

    A commit whose link was moved before the power went is one, though its own end line is missing. Only the last op
    can be that: none was armed before another's commit was over.
    """
    boot_id = clock.boot_id()
    open_ops: dict[str, dict[str, Any]] = {}
    last = None
    for line in releases.history(paths, 200):
        op, event = str(line.get("op")), line.get("event")
        if event == "armed":
            open_ops[op] = last = line
        elif event in releases.ENDS:
            open_ops.pop(op, None)
    for line in open_ops.values():
        if line.get("boot_id") == boot_id:
            continue
        origin, target = line.get("from") or {}, line.get("to") or {}
        moved = line is last and target.get("release") == releases.stable(paths) != origin.get("release")
        end = (
            {
                "event": "committed",
                "outcome": "committed",
                "cause": None,
                "text": "the host was restarted at the commit",
            }
            if moved
            else {
                "event": "rolled_back",
                "outcome": "rolled_back",
                "cause": "killed",
                "text": "the host was restarted while the trial ran",
            }
        )
        kept = {name: line.get(name) for name in ("op", "kind", "from", "to", "owner")}
        with store.locked(paths, 2.0):
            releases.add_history(paths, {**kept, **end, "evidence": []})
