"""Runs the graph canary beside the service, in as many processes as it takes: one that crashes ends with its budget."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from . import clock, store
from .as_user import RunError, account, end, start_as
from .build_probe import SERVICE_ONLY
from .in_engine import source

PROGRAM = "ddtune.inengine.graph_canary"
TAIL = 2000


def run(
    python: str,
    cwd: str,
    env: Mapping[str, str],
    user: Optional[str],
    request: Mapping[str, Any],
    limit_s: float,
    started: Callable[[list[int]], None],
) -> list[dict[str, Any]]:
    """What each process did: ``{"pid", "budgets", "status", "began", "seconds", "lines", "tail"}``.

    ``status`` is None for one that had to be ended at the limit. ``started`` is told all pids after each start. A
    budget at which a process ended by itself is not tried again. Raises ``RunError``.
    """
    program = source(PROGRAM)
    if program is None:
        raise RunError("the canary's program is not in the installed programs")
    folder = tempfile.mkdtemp(prefix="ddtune-canary-")
    left = list(request["budgets"])
    done: list[dict[str, Any]] = []
    stop_at = time.monotonic() + limit_s
    try:
        if user and os.geteuid() == 0:
            os.chown(folder, account(user).pw_uid, -1)
        # What the kernel compiles to is the canary's own, and so is what it leaves behind.
        env = {name: value for name, value in env.items() if name not in SERVICE_ONLY}
        env = {**env, "TRITON_CACHE_DIR": folder, "TMPDIR": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        while left and time.monotonic() < stop_at:
            process = start_as([python, "-c", program], cwd, env, user)
            pids = [*(one["pid"] for one in done), process.pid]
            started(pids)
            asked = json.dumps({**request, "budgets": left}).encode()
            done.append(_one(process, asked, left, stop_at - time.monotonic()))
            left = rest(left, done[-1]["lines"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return done


def rest(budgets: Sequence[int], lines: Sequence[Mapping[str, Any]]) -> list[int]:
    """The budgets that a process which said ``lines`` left to others: those behind the one at which it ended."""
    begun = [line["budget"] for line in lines if line.get("t") == "begin"]
    if any(line.get("t") == "end" for line in lines) or not begun:
        return []
    return list(budgets)[list(budgets).index(begun[-1]) + 1 :]


def _one(process: subprocess.Popen[bytes], asked: bytes, budgets: Sequence[int], limit_s: float) -> dict[str, Any]:
    began = clock.wall()
    status: Optional[int] = None
    try:
        out, err = process.communicate(asked, timeout=max(1.0, limit_s))
        status = process.returncode
    except subprocess.TimeoutExpired:
        end(process)
        out, err = process.communicate()
    finally:
        end(process)
    return {
        "pid": process.pid,
        "budgets": list(budgets),
        "status": status,
        "began": began,
        "seconds": round(clock.wall() - began, 2),
        "lines": [line for line in map(store.parse_object, out.splitlines()) if line is not None],
        "tail": err.decode("utf-8", "replace")[-TAIL:],
    }
