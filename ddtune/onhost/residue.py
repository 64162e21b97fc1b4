"""What an ended service leaves behind, looked for before its next start: a rollback's start too.

Cleared are only processes that are in the unit's cgroup or were seen there (by pid and start time), and shared memory
that nobody can own any more; never anything by its name. What is somebody else's is left alone and named.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Optional

from . import gpu_memory, holders, store
from .paths import CGROUPS, Install, UnitPaths

KILL_S = 5.0
PORT_S = 3.0
GPU_S = 10.0
POLL_S = 0.1
_SHM = "/dev/shm"
_SHM_LEAST = 64 * 1024 * 1024

Pids = Mapping[int, int]
"""Processes by pid, with the clock ticks since boot at which each began: a pid that was given again is told apart."""


@dataclass(frozen=True)
class Residue:
    """What no program may clear: its cause, and the sentence that tells a person what to do."""

    cause: str
    action: str


def members(control_group: str) -> dict[int, int]:
    """The processes of a cgroup and of those below it."""
    found = {}
    for base in CGROUPS if control_group.strip("/") else ():
        for folder, _, _ in os.walk(base + control_group):
            for pid in _numbers(f"{folder}/cgroup.procs"):
                began = holders.began(pid)
                if began is not None:
                    found[pid] = began
    return found


def remember(paths: UnitPaths, main_pid: int) -> None:
    """Add the unit's present processes to those seen, so that one that leaves the cgroup is known again."""
    group = holders.control_group(main_pid) if main_pid else ""
    if paths.unit not in group:
        return
    known, now = _seen(paths), members(group)
    if all(known.get(pid) == began for pid, began in now.items()):
        return
    pids = {**{pid: began for pid, began in known.items() if holders.began(pid) == began}, **now}
    # A full /run costs this memory, never the transaction.
    with suppress(store.DiskFull, OSError):
        store.write_json(paths.processes, {"cgroup": group, "pids": {str(pid): began for pid, began in pids.items()}})


def clear(install: Install, paths: UnitPaths, port: int) -> Optional[Residue]:
    """Make the ground clean for a start of a unit that is down; what stands in its way and is not ours to clear.

    Takes milliseconds where nothing is left, and some seconds at most.
    """
    if install.root:
        return None
    group = str((store.read_json(paths.processes) or {}).get("cgroup") or "")
    survivors = _kill({**_seen(paths), **members(group)})
    if survivors:
        return Residue("residue", f"{_listed(survivors)} of {paths.unit} cannot be ended: restart the host")
    return _port(paths, port) or _gpus() or _shared_memory(paths)


def _seen(paths: UnitPaths) -> dict[int, int]:
    """The processes that were seen in the unit's cgroup on this boot."""
    pids = (store.read_json(paths.processes) or {}).get("pids")
    return {int(pid): int(began) for pid, began in pids.items()} if isinstance(pids, dict) else {}


def foreign(install: Install) -> tuple[str, ...]:
    """Other people's processes on the GPUs, one sentence each."""
    used = None if install.root else gpu_memory.read()
    apps = used.apps if used else ()
    return tuple(f"left alone: {holders.described(pid)} holds {mib} MiB of GPU memory" for pid, mib in apps)


def _kill(known: Pids) -> list[int]:
    """SIGKILL to each that still is who it was; those that live on."""
    until = time.monotonic() + KILL_S
    while True:
        left = [pid for pid, began in known.items() if holders.began(pid) == began and not holders.dead(pid)]
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not left or time.monotonic() >= until:
            return left
        time.sleep(POLL_S)


def _port(paths: UnitPaths, port: int) -> Optional[Residue]:
    until = time.monotonic() + PORT_S
    while (held := holders.of_port(port)) is not None:
        if time.monotonic() >= until:
            who = _listed(held) if held else "a process that cannot be seen from here"
            action = f"port {port} is held by {who}: end it, then run systemctl start {paths.unit}"
            return Residue("port_in_use", action)
        time.sleep(POLL_S)
    return None


def _gpus() -> Optional[Residue]:
    """Memory that no process owns once the unit is down: the driver gives it back within seconds, or never."""
    until = time.monotonic() + GPU_S
    while True:
        used = gpu_memory.read()
        if used is None or not used.unowned:
            return None
        if time.monotonic() >= until:
            gpus = ", ".join(f"GPU {index} ({mib} MiB)" for index, mib in used.unowned)
            return Residue("residue", f"{gpus} holds memory of no process: reset the GPU or restart the host")
        time.sleep(0.5)


def _shared_memory(paths: UnitPaths) -> Optional[Residue]:
    user = holders.uid((store.read_json(paths.site) or {}).get("user"))
    # Segments of a user who has no process any more are nobody's. Of root's nothing can be said.
    if user and not holders.runs_anything(user):
        for name in os.listdir(_SHM):
            path = os.path.join(_SHM, name)
            with suppress(OSError):
                if os.lstat(path).st_uid == user and not os.path.isdir(path):
                    os.unlink(path)
    room = os.statvfs(_SHM)
    if room.f_blocks and room.f_bavail * room.f_frsize < min(_SHM_LEAST, room.f_blocks * room.f_frsize // 20):
        return Residue("residue", f"{_SHM} is full of other users' files: free it, then systemctl start {paths.unit}")
    return None


def _listed(pids: Iterable[int]) -> str:
    return ", ".join(holders.described(pid) for pid in pids)


def _numbers(path: str) -> list[int]:
    try:
        with open(path, encoding="ascii") as file:
            return [int(line) for line in file]
    except (OSError, ValueError):
        return []
