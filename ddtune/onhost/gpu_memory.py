"""GPU memory and who holds it, by nvidia-smi; nothing is said where it cannot be read."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import Optional

from . import tools

LIMIT_S = 5.0
BASE_MIB = 2048
"""What a driver itself keeps of a GPU, at most."""


@dataclass(frozen=True)
class Used:
    """``apps`` are ``(pid, MiB)``; ``unowned`` are ``(GPU index, MiB)`` where more is used than the apps hold."""

    apps: tuple[tuple[int, int], ...]
    unowned: tuple[tuple[int, int], ...]


def read() -> Optional[Used]:
    """What is held now; None where nvidia-smi is missing, slow, or does not say it of every process."""
    gpus = _rows("--query-gpu=index,uuid,memory.used")
    apps = _rows("--query-compute-apps=pid,gpu_uuid,used_memory")
    if gpus is None or apps is None:
        return None
    try:
        return judge(gpus, apps)
    except (ValueError, IndexError):
        return None


def judge(gpus: list[list[str]], apps: list[list[str]]) -> Used:
    """``gpus`` are rows of index, uuid, MiB used; ``apps`` of pid, uuid, MiB. Raises ValueError on ``[N/A]``."""
    owned: dict[str, int] = {}
    held: dict[int, int] = {}
    for pid, uuid, mib in apps:
        owned[uuid] = owned.get(uuid, 0) + int(mib)
        held[int(pid)] = held.get(int(pid), 0) + int(mib)
    left = [(int(index), int(mib) - owned.get(uuid, 0)) for index, uuid, mib in gpus]
    return Used(tuple(held.items()), tuple((index, mib) for index, mib in left if mib > BASE_MIB))


def _rows(query: str) -> Optional[list[list[str]]]:
    program = tools.nvidia_smi()
    if program is None:
        return None
    argv = [program, query, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    return [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
