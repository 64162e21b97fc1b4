"""Which processes are the graph canary's, so that what they do to a GPU is charged to nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from . import store
from .paths import UnitPaths

GRACE_S = 5.0
"""Seconds after its end in which the driver's line may still come."""


def write(paths: UnitPaths, pids: Sequence[int], began: float, ended: Optional[float]) -> None:
    """Keep the processes of the present or last run; ``began`` and ``ended`` are seconds since the epoch."""
    paths.ensure_run()
    store.write_json(paths.canary, {"pids": list(pids), "began": began, "ended": ended})


def read(paths: UnitPaths) -> Optional[dict[str, Any]]:
    """The last run on this boot, or None."""
    return store.read_json(paths.canary)


def charged(mark: Optional[Mapping[str, Any]], at: float, pid: Optional[int]) -> Optional[str]:
    """Whose an Xid is that came at ``at`` and blames ``pid``.

    ``canary`` for one of its own processes, ``unclear`` for one without a process while it ran, None for any other.
    """
    if mark is None:
        return None
    ended = mark.get("ended")
    within = mark["began"] <= at and (ended is None or at <= ended + GRACE_S)
    if pid is None:
        return "unclear" if within else None
    return "canary" if within and pid in mark["pids"] else None
