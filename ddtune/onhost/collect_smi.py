"""GPU readings from one ``nvidia-smi`` that is kept open, where NVML cannot be loaded."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
from typing import Any, Optional

_FIELDS = {
    "index": "index",
    "uuid": "uuid",
    "pci": "pci.bus_id",
    "name": "name",
    "power_w": "power.draw",
    "power_limit_w": "enforced.power.limit",
    "util": "utilization.gpu",
    "memory_used_mib": "memory.used",
    "memory_total_mib": "memory.total",
    "temperature_c": "temperature.gpu",
    "sm_clock_mhz": "clocks.sm",
    "throttle": "clocks_throttle_reasons.active",
    "compute_capability": "compute_cap",
}
_TEXT = frozenset(("uuid", "pci", "name", "compute_capability"))
_PAUSE_S = 0.1


def argv(program: str, tick_s: float) -> list[str]:
    """The command whose rows ``parse_row`` reads."""
    query = ",".join(_FIELDS.values())
    loop = str(max(100, int(tick_s * 1000)))
    return [program, f"--query-gpu={query}", "--format=csv,noheader,nounits", f"--loop-ms={loop}"]


def parse_row(row: str) -> Optional[dict[str, Any]]:
    """One GPU of a row; what is not a number (``[N/A]``, ``ERR!``) is not available. None for any other line."""
    words = [word.strip() for word in row.split(",")]
    if len(words) != len(_FIELDS) or not words[0].isdigit():
        return None
    reading: dict[str, Any] = {}
    for name, word in zip(_FIELDS, words):
        if name in _TEXT:
            reading[name] = None if word.startswith("[") else word
        else:
            reading[name] = _number(word)
    reading["index"] = int(words[0])
    reading["lost"] = reading["power_w"] is None and "ERR!" in words
    return reading


def _number(word: str) -> Optional[float]:
    try:
        return int(word, 16) if word.startswith("0x") else float(word)
    except ValueError:
        return None


class Smi:
    """All GPUs, from one process. Raises OSError where there is no ``nvidia-smi`` or it does not answer."""

    via = "nvidia-smi"

    def __init__(self, tick_s: float) -> None:
        program = shutil.which("nvidia-smi")
        if program is None:
            raise FileNotFoundError("nvidia-smi is not there")
        self._tick_s = tick_s
        self._process = subprocess.Popen(
            argv(program, tick_s), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._held = b""

    def sample(self) -> list[dict[str, Any]]:
        """The next bunch of rows: rows that follow each other closely belong together."""
        assert self._process.stdout
        descriptor = self._process.stdout.fileno()
        rows: list[str] = []
        limit = 45.0
        while select.select([descriptor], [], [], limit)[0]:
            data = os.read(descriptor, 65536)
            if not data:
                raise OSError("nvidia-smi ended")
            *lines, self._held = (self._held + data).split(b"\n")
            rows += [line.decode(errors="replace") for line in lines]
            limit = min(_PAUSE_S, self._tick_s / 2)
        if not rows:
            raise OSError("nvidia-smi hangs")
        return [reading for reading in map(parse_row, rows) if reading]

    def close(self) -> None:
        # SIGKILL would leave the driver with a client that it must clean up after.
        self._process.terminate()
