"""``choose UNIT``, before each start, as root: trial or stable? Whatever goes wrong here, the answer is stable."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from . import clock, late, ledger, releases, store
from .paths import Paths, UnitPaths, load_install
from .txn import TRYING, Chosen, Fail, Launch, Txn, TxnError

LOCK_S = 2.0


def main(args: list[str]) -> int:
    """Write ``chosen`` for this start. 0 when it stands; the start goes on either way."""
    paths = Paths(load_install().root).unit(args[0])
    invocation = os.environ.get("INVOCATION_ID", "")
    if not invocation:
        print("ddtune: choose is for systemd, which gives each start an INVOCATION_ID", file=sys.stderr)
        return 2
    try:
        paths.ensure_run()
        _catch_up(paths)
        which = choose(paths, invocation)
    except Exception as error:  # noqa: BLE001 (a fault of ddtune must not keep the service down)
        ledger.shout(f"{args[0]}: choose failed ({error}); the service starts on stable")
        return 1
    print(f"ddtune: {args[0]} starts on {which}")
    return 0


def _catch_up(paths: UnitPaths) -> None:
    """What a reboot or a late crash left to do; none of it may stand in the way of the start."""
    chosen = store.read_json(paths.chosen)
    try:
        if chosen is None or chosen.get("boot_id") != clock.boot_id():
            late.close_open_ops(paths)
        if not late.transacting(paths):
            back = late.go_to_previous(paths)
            if back:
                ledger.shout(f"{paths.unit} ended unasked in its probation; it goes back to {_name(paths, back)}")
    except Exception as error:  # noqa: BLE001 (see above)
        ledger.shout(f"{paths.unit}: {error}")


def choose(paths: UnitPaths, invocation: str) -> str:
    """Decide, and publish ``chosen``; gives ``trial`` or ``stable``.

    Both answers are staged before the decision, so that none can be lost to a full disk after it.
    """
    txn = _peek(paths)
    trial = _stage_trial(paths, txn, invocation) if txn else None
    which = _decide(paths, txn, trial is not None, invocation)
    if which == "trial" and trial is not None:
        store.publish(trial, paths.chosen)
        return which
    if trial is not None:
        store.discard(trial)
    sha, release = stable_release(paths)
    store.publish(_stage(paths, invocation, sha, release, "stable", None), paths.chosen)
    return "stable"


def _peek(paths: UnitPaths) -> Txn | None:
    try:
        txn = ledger.load(paths)
    except TxnError as error:
        ledger.shout(f"{paths.unit}: {error}; the service starts on stable")
        return None
    return txn if txn and txn.state in TRYING else None


def _stage_trial(paths: UnitPaths, txn: Txn, invocation: str) -> str | None:
    try:
        if not os.path.isdir(paths.trial):
            raise releases.ReleaseError(f"{paths.trial} points nowhere")
        release = releases.read(paths, txn.candidate)
        return _stage(paths, invocation, txn.candidate, release, "trial", txn.op)
    except (releases.ReleaseError, store.DiskFull, OSError) as error:
        ledger.shout(f"{paths.unit}: the trial cannot be started ({error})")
        said = {"at": clock.wall(), "source": "guard", "rank": None, "text": str(error)}
        cause = "disk_full" if isinstance(error, store.DiskFull) else "unknown"
        with suppress(TxnError, store.LockTimeoutError, store.DiskFull, OSError):
            ledger.apply(paths, lambda at: Fail(at, txn.op, cause, (said,)), LOCK_S)
        return None


def _decide(paths: UnitPaths, txn: Txn | None, startable: bool, invocation: str) -> str:
    """The compare-and-swap. A trial that could not be staged is never chosen."""
    asked = bool(txn and _was_asked(paths, txn.trial_invocation))
    try:
        boot_id = clock.boot_id()
        applied = ledger.apply(paths, lambda at: Chosen(at, boot_id, invocation, asked), LOCK_S)
    except (TxnError, store.LockTimeoutError, store.DiskFull, OSError) as error:
        ledger.shout(f"{paths.unit}: {error}; the service starts on stable")
        return "stable"
    launch = next((effect.which for effect in applied.effects if isinstance(effect, Launch)), "stable")
    return launch if startable else "stable"


def _was_asked(paths: UnitPaths, invocation: str | None) -> bool:
    record = (store.read_json(paths.ended) or {}).get(invocation or "")
    return bool(isinstance(record, dict) and record.get("asked"))


def _stage(paths: UnitPaths, invocation: str, sha: str, release: dict[str, Any], which: str, op: str | None) -> str:
    about = {"invocation": invocation, "release": sha, "op": op, "which": which, "boot_id": clock.boot_id()}
    # Whoever may read the release may read what was chosen of it.
    gid = os.stat(paths.release(sha)).st_gid
    return store.stage(paths.chosen, store.to_bytes({**release, **about}), 0o440, gid)


def stable_release(paths: UnitPaths) -> tuple[str, dict[str, Any]]:
    """Stable and its name; where it cannot be read, the newest release that passed a gate, said loudly.

    Raises releases.ReleaseError when no release is left.
    """
    problem: releases.ReleaseError | None = None
    for sha in _by_trust(paths):
        try:
            release = releases.read(paths, sha)
        except releases.ReleaseError as error:
            problem = problem or error
            continue
        if problem:
            ledger.shout(f"{paths.unit}: {problem}; the service starts on {_name(paths, sha)}")
        return sha, release
    raise problem or releases.ReleaseError(f"no release of {paths.unit} is left on this host")


def _by_trust(paths: UnitPaths) -> Iterator[str]:
    for sha in (releases.stable(paths), releases.previous(paths)):
        if sha:
            yield sha
    for line in reversed(releases.history(paths)):
        if line.get("event") in ("committed", "adopted"):
            yield str((line.get("to") or {}).get("release"))


def _name(paths: UnitPaths, sha: str) -> str:
    profile = releases.profile(paths, sha)
    return f"{profile} ({sha[:12]})" if profile else sha[:12]
