"""Whether a folder has room for what a transaction writes."""

from __future__ import annotations

import os

from .context import RefusalError

_BYTES = 1024 * 1024
_INODES = 64


def check_room(folder: str) -> None:
    """Refuses, as ``disk_full``, a folder whose file system has no room for what a transaction writes."""
    try:
        room = os.statvfs(folder)
    except OSError as error:
        raise RefusalError("disk_full", f"{folder} cannot be used: {error.strerror}") from None
    if room.f_bavail * room.f_frsize < _BYTES or (room.f_files and room.f_favail < _INODES):
        raise RefusalError("disk_full", f"too little room is left for {folder}: free some space or inodes there")
