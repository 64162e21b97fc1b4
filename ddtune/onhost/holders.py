"""Processes as residue sees them: since when, whose, and which of them listens on a port."""

from __future__ import annotations

import os
import pwd
import time
from contextlib import suppress
from typing import Optional

# 0.0.0.0, 127.0.0.1, :: and ::1 as /proc/net writes them; a listener on another address is in nobody's way.
_ADDRESSES = ("00000000", "0100007F", "0" * 32, "0" * 24 + "01000000")
_LISTEN = "0A"


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode("ascii", "replace").split()
    except OSError:
        return []


def began(pid: int) -> Optional[int]:
    """Clock ticks since boot at which ``pid`` began; None when there is no such process."""
    fields = _stat(pid)
    return int(fields[19]) if len(fields) > 19 else None


def dead(pid: int) -> bool:
    """``pid`` is gone, or a zombie that only waits to be collected."""
    fields = _stat(pid)
    return not fields or fields[0] in ("Z", "X")


def control_group(pid: int) -> str:
    """The cgroup of ``pid``, by the unified hierarchy or else by systemd's own; empty when it cannot be read."""
    groups = {}
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            for line in file:
                _, name, path = line.rstrip("\n").split(":", 2)
                groups[name] = path
    except (OSError, ValueError):
        return ""
    unified = groups.get("", "/")
    return unified if unified != "/" else groups.get("name=systemd", "")


def described(pid: int) -> str:
    """``pid 7 (python3, of bob for 12 s)``."""
    fields = _stat(pid)
    if len(fields) <= 19:
        return f"pid {pid}"
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            name = file.read().strip()
        user = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return f"pid {pid}"
    owner = str(user)
    with suppress(KeyError):
        owner = pwd.getpwuid(user).pw_name
    stuck = ", in uninterruptible sleep" if fields[0] == "D" else ""
    return f"pid {pid} ({name}, of {owner} for {age_s:.0f} s{stuck})"


def uid(user: object) -> Optional[int]:
    """The number of a unit's ``User=``; None for root, for no user and for one that is unknown."""
    if not isinstance(user, str) or not user:
        return None
    with suppress(KeyError):
        return int(user) if user.isdigit() else pwd.getpwnam(user).pw_uid
    return None


def runs_anything(user: int) -> bool:
    """Whether a process of ``user`` lives."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.stat(f"/proc/{entry}").st_uid == user and not dead(int(entry)):
                return True
    return False


def of_port(port: int) -> Optional[list[int]]:
    """The processes that listen on ``port`` on all addresses or the loopback; None when nobody does."""
    sockets = {f"socket:[{inode}]" for inode in _listeners(port)}
    if not sockets:
        return None
    return sorted(int(entry) for entry in filter(str.isdigit, os.listdir("/proc")) if _has(entry, sockets))


def _listeners(port: int) -> list[str]:
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError), open(table, encoding="ascii") as file:
            for line in file.readlines()[1:]:
                words = line.split()
                address, _, number = words[1].partition(":")
                if words[3] == _LISTEN and int(number, 16) == port and address in _ADDRESSES:
                    found.append(words[9])
    return found


def _has(pid: str, sockets: set[str]) -> bool:
    with suppress(OSError):
        for entry in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{entry}") in sockets:
                    return True
    return False
