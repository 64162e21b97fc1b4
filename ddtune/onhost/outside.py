"""What somebody has changed of the unit's own files since it was adopted, and who, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from . import inspect_process, unit_files, who
from .context import Answer, Host
from .paths import UnitPaths

PROPERTIES = (*unit_files.PROPERTIES, "NeedDaemonReload", "MainPID")
"""What :func:`changed` wants to know of a unit."""
WHO_S = 86400
"""Seconds back in which the journal is asked who changed a unit."""


def changed(host: Host, paths: UnitPaths, props: Mapping[str, str]) -> Optional[Answer]:
    """``{"text", "files"}`` of what was changed outside of ddtune; None where nothing was. ``props`` are PROPERTIES."""
    found = unit_files.changed(paths, props)
    if not found:
        return None
    pid = int(props.get("MainPID") or 0)
    process = inspect_process.read_process(pid) if pid else None
    started_at, unread = process.started_at if process else None, props.get("NeedDaemonReload") == "yes"
    text = sentence(paths.unit, found, started_at, unread=unread)
    by = who.acted(host.install, paths.unit, WHO_S)
    return {"text": f"{text} ({by})" if by else text, "files": [one.json for one in found]}


def sentence(unit: str, found: list[unit_files.Change], started_at: Optional[float], *, unread: bool) -> str:
    """What was changed in words, and from when it counts; ``started_at`` is the main process's, epoch seconds."""
    since = started_at is not None and all(one.at is not None and one.at < started_at for one in found)
    takes = "its next start will have it"
    if unread:
        takes += ", once systemd has read it (systemctl daemon-reload)"
    elif since:
        takes = "what runs was started since"
    changes = "; ".join(one.text for one in found)
    return f"{unit} is not written down as it was adopted: {changes}: {takes}"
