"""Taking a service out of ddtune, and ddtune off the host. Stops nothing; one that was cut off goes on where it was."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from typing import Any, Optional

from . import adopt_checks, programs, schema, store, traffic, wrapper
from .adopt import remove_drop_in
from .context import Answer, Host, RefusalError
from .inspect_process import Process
from .paths import UnitPaths
from .txn_model import TxnError, busy, from_json

UNADOPT: schema.Fields = {
    "owner": schema.maybe(schema.OWNER, {}),
    "programs": schema.maybe(schema.flag, False),
    "keep_helper": schema.maybe(schema.flag, False),
}


def unadopt(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Gives ``unit`` back to its own unit file and leaves it running. Raises ``RefusalError`` while a change runs.

    With ``programs``, and no other unit adopted, the programs go too: all of them, or all but what lets the same login
    come back (``keep_helper``). Where nothing is left of ddtune it removes nothing.
    """
    paths = host.paths.unit(unit)
    removed: list[str] = []
    process, props = None, {}
    if any(map(os.path.lexists, (paths.drop_in, paths.state, paths.run))):
        with store.locked(paths):
            refuse_busy(paths)
            process = host.running(unit)
            removed += remove_drop_in(host, paths, (store.read_json(paths.base) or {}).get("made_folder") is True)
            props = host.systemctl.show(unit, "ExecStart", "DropInPaths", "User")
            if paths.drop_in in props.get("DropInPaths", "").split():
                raise RefusalError("unknown", f"systemd still uses {paths.drop_in} after it was removed")
            traffic.lift(host.install, paths)
            # From here on it is not adopted, whatever else is left to take away.
            store.remove(paths.site)
            for folder in (paths.state, paths.run):
                if os.path.isdir(folder):
                    shutil.rmtree(folder, ignore_errors=True)
                    removed.append(folder)
    stays: list[str] = []
    if fields["programs"] and not host.adopted_units():
        removed += programs.uninstall(host, fields["keep_helper"])
        stays = [path for path in (host.paths.helper, host.paths.sudoers) if os.path.lexists(path)]
    return {
        "removed": removed,
        "stays": stays,
        "by_hand": programs.by_hand(stays),
        "running": process is not None,
        "next_start": _next_start(host, unit, props, process),
    }


def _next_start(host: Host, unit: str, props: Mapping[str, str], process: Optional[Process]) -> Answer:
    """Whether the unit's own command line is something else than what runs now; None where that cannot be told."""
    differs: Optional[bool] = False
    command = None
    if process is not None:
        show = props.get("ExecStart", "")
        try:
            same = adopt_checks.same_command(show, process.argv, wrapper.given(host.systemctl, unit, props["User"]))
        except wrapper.UnreadableError:
            same = None
        differs = None if same is None else not same
        command = None if same else adopt_checks.both(show, process.argv)[0]
    return {"differs": differs, "command": command}


def refuse_busy(paths: UnitPaths) -> None:
    """Raises ``RefusalError`` while a transaction of the unit runs."""
    found = store.read_json(paths.txn)
    with contextlib.suppress(TxnError):
        if found and busy(from_json(found)):
            raise RefusalError("busy", f"a transaction of {paths.unit} is running: wait for its end or abort it")
