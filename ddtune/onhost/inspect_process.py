"""What really runs, read from /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .build_probe import program_length

SCHEDULER = "sglang::scheduler"
_COMM_LENGTH = 15


@dataclass(frozen=True)
class Process:
    """One process as /proc shows it. ``started_at`` is wall time in seconds, ``None`` when it cannot be told."""

    pid: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    started_at: Optional[float]


def read_process(pid: int) -> Process | None:
    """The process ``pid``, or None when there is none, it is a zombie, or it may not be read."""
    try:
        argv = split_nul(_read(pid, "cmdline"))
        environ = split_nul(_read(pid, "environ"))
        cwd = os.readlink(f"/proc/{pid}/cwd")
    except (OSError, ValueError):
        return None
    if pid <= 0 or not argv:
        return None
    env = dict(entry.split("=", 1) for entry in environ if "=" in entry)
    return Process(pid, tuple(argv), env, cwd, _started_at(pid))


def split_nul(data: bytes) -> list[str]:
    """The strings of a NUL-ended list, empty ones kept; bytes that are not UTF-8 survive a round trip."""
    if not data:
        return []
    return [part.decode("utf-8", "surrogateescape") for part in data.removesuffix(b"\0").split(b"\0")]


def schedulers(pid: int) -> list[dict[str, Any]]:
    """The scheduler processes below ``pid``: ``{"pid", "name", "state"}``, state being the letter of /proc."""
    parents: dict[int, list[tuple[int, str, str]]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (stat := _stat(int(entry))):
            comm, state, parent = stat
            parents.setdefault(parent, []).append((int(entry), comm, state))
    found, todo = [], [pid]
    while todo:
        for child, comm, state in parents.get(todo.pop(), ()):
            todo.append(child)
            name = _title(child) or comm
            if name.startswith(SCHEDULER[: min(len(SCHEDULER), _COMM_LENGTH)]):
                found.append({"pid": child, "name": name, "state": state})
    return sorted(found, key=lambda one: (one["name"], one["pid"]))


@dataclass(frozen=True)
class Tree:
    """The parent of each process of this host."""

    parent: Mapping[int, int]

    def engines(self) -> list[int]:
        """Processes whose command line is an engine's, those that an engine has started left out."""
        found = {pid for pid in self.parent if _is_engine(pid)}
        return sorted(pid for pid in found if found.isdisjoint(self._above(pid)))

    def owner(self, pid: int, names: Mapping[int, str]) -> Optional[str]:
        """The name of ``pid``, or else of the nearest process above it that has one."""
        return next((names[one] for one in (pid, *self._above(pid)) if one in names), None)

    def engine_below(self, pid: int) -> Optional[int]:
        """An engine that ``pid`` has started, itself or through others."""
        return next((one for one in self.engines() if pid in self._above(one)), None)

    def _above(self, pid: int) -> list[int]:
        above = []
        while (pid := self.parent.get(pid, 0)) > 1:
            above.append(pid)
        return above


def parents() -> Tree:
    """The tree as it is now."""
    found = ((int(entry), _stat(int(entry))) for entry in os.listdir("/proc") if entry.isdigit())
    return Tree({pid: stat[2] for pid, stat in found if stat})


def _is_engine(pid: int) -> bool:
    try:
        return program_length(split_nul(_read(pid, "cmdline"))) is not None
    except OSError:
        return False


def env_holds(env: Mapping[str, str], env_set: Mapping[str, str], env_unset: Sequence[str]) -> bool:
    """Whether a process environment has all of ``env_set`` and none of ``env_unset``."""
    return all(env.get(name) == value for name, value in env_set.items()) and not any(
        name in env and name not in env_set for name in env_unset
    )


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()


def _stat(pid: int) -> tuple[str, str, int] | None:
    """Name, state and parent of ``pid``."""
    try:
        text = _read(pid, "stat").decode("utf-8", "replace")
    except OSError:
        return None
    head, _, tail = text.rpartition(")")
    state, parent = tail.split()[:2]
    return head.partition("(")[2], state, int(parent)


def _title(pid: int) -> str | None:
    """argv[0] as the process itself has set it."""
    try:
        return _read(pid, "cmdline").partition(b"\0")[0].decode("utf-8", "replace").strip() or None
    except OSError:
        return None


def _started_at(pid: int) -> float | None:
    try:
        ticks = int(_read(pid, "stat").rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age
