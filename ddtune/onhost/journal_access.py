"""Whether this login may read the system's journal, which holds the kernel's lines too."""

from __future__ import annotations

import glob
import os
from typing import Optional

NO_PERMISSION = (
    "no permission to read the journal (group systemd-journal):"
    " log lines, incidents and GPU faults (Xid) are unknown, not none"
)


def files(root: str) -> list[str]:
    """The journal's own files; none under a root of its own, whose journal is kept in another way."""
    folders = () if root else ("/var/log/journal", "/run/log/journal")
    return [path for folder in folders for path in sorted(glob.glob(f"{folder}/*/system.journal"))]


def readable(root: str) -> Optional[bool]:
    """None where there is no file to look at.

    ``journalctl -o json`` says nothing and ends with 0 where it may read nothing, so the files are asked.
    """
    found = files(root)
    return any(os.access(path, os.R_OK) for path in found) if found else None
