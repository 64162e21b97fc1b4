"""Processes below one process: found in /proc, ended for good. Standard library alone, for bare interpreters."""

from __future__ import annotations

import ctypes
import os
import signal
import time

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Makes this process the parent of every orphan below it, as PID 1 is of a machine's."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int) -> list[tuple[int, str]]:
    """``(pid, command name)`` of all living processes below ``root``, parents before children, zombies left out."""
    children: dict[int, list[tuple[int, str, str]]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                stat = file.read().decode("utf-8", "replace")
        except OSError:
            continue
        comm = stat[stat.index("(") + 1 : stat.rindex(")")]
        state, parent = stat[stat.rindex(")") + 2 :].split()[:2]
        children.setdefault(int(parent), []).append((int(name), comm, state))
    found: list[tuple[int, str]] = []
    queue = [root]
    while queue:
        for pid, comm, state in children.get(queue.pop(0), ()):
            queue.append(pid)
            if state not in "ZX":
                found.append((pid, comm))
    return found


def send(pid: int, sig: int) -> None:
    """Signals one process that may be gone already."""
    try:
        os.kill(pid, sig)
    except (ProcessLookupError, PermissionError):
        return


def reap() -> list[tuple[int, int]]:
    """Collects all children that ended: ``(pid, wait status)``."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status))


def purge(limit_s: float = 5.0) -> tuple[list[tuple[int, str]], list[tuple[int, int]]]:
    """Kills everything below this process, also what is born meanwhile.

    Returns what was killed, as ``descendants`` names it, and what was reaped, as ``reap`` does.
    """
    killed: dict[int, str] = {}
    ended = reap()
    deadline = time.monotonic() + limit_s
    while (alive := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid, comm in alive:
            killed[pid] = comm
            send(pid, signal.SIGKILL)
        time.sleep(0.002)
        ended += reap()
    return list(killed.items()), ended + reap()
