"""Which guard is alive: the one that holds the guard's lock and has written its name down."""

from __future__ import annotations

import os
import time

from . import clock, store
from .paths import UnitPaths


def claim(paths: UnitPaths, op: str, limit_s: float = 2.0) -> int | None:
    """Become the guard of ``op``: the descriptor to keep open, or None while another guard lives.

    The kernel gives the lock back when the guard dies, however it dies.
    """
    paths.ensure_run()
    held = store.try_lock(paths.guard_lock, limit_s)
    if held is not None:
        store.write_json(paths.guard, {"op": op, "pid": os.getpid(), "at": clock.wall()})
    return held


def guard_alive(paths: UnitPaths, op: str) -> bool:
    """A guard of ``op`` is running now."""
    found = store.read_json(paths.guard)
    if found is None or found.get("op") != op:
        return False
    try:
        free = store.try_lock(paths.guard_lock, 0.0, shared=True)
    except OSError:
        return False
    if free is None:
        return True
    os.close(free)
    return False


def wait_for_guard(paths: UnitPaths, op: str, limit_s: float = 5.0) -> bool:
    """Wait until a guard of ``op`` is seen alive; False when none came within ``limit_s``."""
    until = time.monotonic() + limit_s
    while not guard_alive(paths, op):
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)
    return True
