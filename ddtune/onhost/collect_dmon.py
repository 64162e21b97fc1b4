"""GPU performance metrics (GPM) from one ``nvidia-smi dmon`` that is kept open, where NVML cannot be loaded."""

from __future__ import annotations

import math
import os
import select
import subprocess
import time
from typing import Any, Optional

from .collect_nvml import GPM_METRICS

_FRESH_S = 3.0

Values = dict[str, Optional[float]]


def argv(program: str) -> list[str]:
    """The command whose lines ``Table`` reads: a second between rows, which is the shortest that it takes.

    The order of the metrics is that of the columns, whose own names are not used: drivers before 580 call NVLink's
    pcirx and pcitx.
    """
    metrics = ",".join(map(str, GPM_METRICS.values()))
    return [program, "dmon", "-s", "p", "--gpm-metrics", metrics, "--gpm-options", "d", "-d", "1"]


class Table:
    """The newest row of each GPU, by nvidia-smi's index. A dash is not available; the first two rows hold nothing else.

    The second line of a heading names units, and those of GPM begin with ``GPM:``.
    """

    def __init__(self) -> None:
        self.rows: dict[int, Values] = {}
        self._columns: list[int] = []

    def take(self, line: str) -> bool:
        """Whether ``line`` was a row of a GPU."""
        words = line.split()
        if words[:2] == ["#", "Idx"]:
            self._columns = [at - 1 for at, word in enumerate(words) if word.startswith("GPM:")]
        if len(self._columns) != len(GPM_METRICS) or not words or not words[0].isdecimal():
            return False
        if len(words) <= self._columns[-1]:
            return False
        self.rows[int(words[0])] = {name: _number(words[at]) for name, at in zip(GPM_METRICS, self._columns)}
        return True


class Dmon:
    """What ``nvidia-smi dmon`` last said. One that ends, as where there is no GPM, says nothing from then on."""

    def __init__(self, program: str) -> None:
        self._table = Table()
        self._held = b""
        self._at = 0.0
        self._process: Optional[subprocess.Popen[bytes]] = None
        try:
            self._process = subprocess.Popen(
                argv(program), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError:
            return

    def merge(self, gpus: list[dict[str, Any]]) -> None:
        """Add to each of ``gpus`` its newest values; never waits.

        None is added unless the same GPUs are in both: a lost one moves the index of those behind it.
        """
        self._read()
        fresh = time.monotonic() - self._at <= _FRESH_S
        same = {gpu["index"] for gpu in gpus if not gpu["lost"]} == set(self._table.rows)
        if fresh and same and not any(gpu["lost"] for gpu in gpus):
            for gpu in gpus:
                gpu.update(self._table.rows[gpu["index"]])

    def _read(self) -> None:
        while self._process and self._process.stdout and select.select([self._process.stdout], [], [], 0)[0]:
            data = os.read(self._process.stdout.fileno(), 65536)
            if not data:
                self._process.wait()
                self._process = None
                return
            *lines, self._held = (self._held + data).split(b"\n")
            for line in lines:
                if self._table.take(line.decode(errors="replace")):
                    self._at = time.monotonic()

    def close(self) -> None:
        """Ask it to end; SIGKILL would leave the driver with a client that it must clean up after."""
        if self._process is not None:
            self._process.terminate()


def _number(word: str) -> Optional[float]:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
