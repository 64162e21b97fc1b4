"""Which processes are the graph canary's, so that what they do to a GPU is charged to nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from . import store
from .paths import UnitPaths

GRACE_S = 5.0
"""Seconds after its end in which the driver's line may still come."""


def write(paths: UnitPaths, pids: Sequence[int], began: float, ended: float) -> None:
    """Keep the processes of the present or last run; ``began`` and ``ended`` are seconds since the epoch.

    While it runs, ``ended`` is when it is over at the latest: a helper that is killed writes no other end.
    """
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
    within = mark["began"] <= at <= (mark["ended"] or mark["began"]) + GRACE_S
    if pid is None:
        return "unclear" if within else None
    return "canary" if within and pid in mark["pids"] else None
