"""``choose UNIT``, before each start, as root: trial or stable? Whatever goes wrong here, the answer is stable.

Every start waits for it, so what only a running transaction needs is imported only then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from . import clock, late, releases, store, unit_files
from .paths import Paths, UnitPaths, load_install
from .shout import shout


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
        shout(f"{args[0]}: choose failed ({error}); the service starts on stable")
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
                shout(f"{paths.unit} ended unasked in its probation; it goes back to {name(paths, back)}")
    except Exception as error:  # noqa: BLE001 (see above)
        shout(f"{paths.unit}: {error}")


def choose(paths: UnitPaths, invocation: str) -> str:
    """Decide, and publish ``chosen``; gives ``trial`` or ``stable``.

    With no transaction there is nothing to decide: one that begins meanwhile takes a start that runs stable for what
    it is.
    """
    if late.transacting(paths):
        from . import choose_trial

        if choose_trial.choose(paths, invocation):
            return "trial"
    if os.path.lexists(paths.held):
        from . import traffic

        traffic.lift(load_install(), paths)
    sha, release = stable_release(paths)
    store.publish(stage(paths, invocation, sha, release, "stable", None), paths.chosen)
    return "stable"


def stage(paths: UnitPaths, invocation: str, sha: str, release: dict[str, Any], which: str, op: str | None) -> str:
    """Write what is chosen beside ``chosen``; whoever may read the release may read it."""
    about = {"invocation": invocation, "release": sha, "op": op, "which": which, "boot_id": clock.boot_id()}
    gid = _readers(paths, os.stat(paths.release(sha)).st_gid)
    return store.stage(paths.chosen, store.to_bytes({**with_base(paths, release), **about}), 0o440, gid)


def _readers(paths: UnitPaths, gid: int) -> int:
    """The group that must read what is chosen: ``gid``, or another where somebody gave the unit another user."""
    if os.geteuid() != 0 or not unit_files.touched(paths):
        return gid
    from . import context, unit

    try:
        now = unit.Systemctl(load_install()).show(paths.unit, "User", "Group")
        found = context.group_id(now.get("User", ""), now.get("Group", ""))
    except (unit.SystemctlError, context.RefusalError) as error:
        shout(f"{paths.unit}: its user is not known ({error}); what is chosen may be read by that of its adoption")
        return gid
    return gid if found is None else found


def with_base(paths: UnitPaths, release: dict[str, Any]) -> dict[str, Any]:
    """``release`` and what the wrapper, whose place the launcher took, did to the environment."""
    base = store.read_json(paths.base) or {}
    kept = {name: base[name] for name in ("env_set", "env_unset") if base.get(name)}
    return {**release, "base_env": kept} if kept else release


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
            shout(f"{paths.unit}: {problem}; the service starts on {name(paths, sha)}")
        return sha, release
    raise problem or releases.ReleaseError(f"no release of {paths.unit} is left on this host")


def _by_trust(paths: UnitPaths) -> Iterator[str]:
    # A link that names nothing is a problem to be told as well.
    yield releases.stable(paths) or "stable"
    previous = releases.previous(paths)
    if previous:
        yield previous
    for line in reversed(releases.history(paths)):
        if line.get("event") in ("committed", "adopted"):
            yield str((line.get("to") or {}).get("release"))


def name(paths: UnitPaths, sha: str) -> str:
    """A release in words."""
    profile = releases.profile(paths, sha)
    return f"{profile} ({sha[:12]})" if profile else sha[:12]
