"""The helper's verb that takes the unit's own files as they are now. Restarts nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import releases, schema, store, unit_files
from .adopt import check_launcher
from .context import Answer, Host, group_id
from .paths import UnitPaths
from .unadopt import refuse_busy

ACCEPT: schema.Fields = {"owner": schema.maybe(schema.OWNER, {})}


def accept(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Takes the unit's own files as they are now; another user of the service may read its releases from here on.

    Restarts nothing. Raises ``RefusalError`` while a transaction runs, and for a user who could not start the service.
    """
    paths = host.adopted(unit)
    with store.locked(paths):
        refuse_busy(paths)
        known = unit_files.kept(paths)
        found = unit_files.changed(paths, host.systemctl.show(unit, *unit_files.PROPERTIES))
        if known and not found:
            return {"files": [], "first": False}
        if found:
            # What is taken is what counts from the next start on, its user too.
            host.systemctl.daemon_reload()
        props = host.systemctl.show(unit, *unit_files.PROPERTIES, "User", "Group")
        if found:
            _hand_over(host, paths, props)
            text = f"taken as they are now: {'; '.join(one.text for one in found)}"
            event = {"op": None, "event": "unit_changed", "outcome": None, "cause": None, "owner": fields["owner"]}
            releases.add_history(paths, {**event, "to": {}, "text": text})
        unit_files.keep(paths, props)
    return {"files": [one.json for one in found], "first": not known}


def _hand_over(host: Host, paths: UnitPaths, props: Mapping[str, str]) -> None:
    """What a start reads, to the group of the user that the unit has now."""
    site = store.read_json(paths.site) or {}
    now = {"user": props.get("User", ""), "group": props.get("Group", "")}
    if all(site.get(name) == value for name, value in now.items()):
        return
    gid = group_id(now["user"], now["group"])
    process = host.running(paths.unit)
    if process is not None:
        check_launcher(host, paths.unit, props, process)
    if gid is not None:
        kept = (paths.release(one["release"]) for one in releases.listed(paths))
        for path in (*kept, paths.base):
            if os.path.exists(path):
                os.chown(path, -1, gid)
    store.write_json(paths.site, {**site, **now})
