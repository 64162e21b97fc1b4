"""GPU readings from one ``nvidia-smi`` query that is kept open, where NVML cannot be loaded; GPM's from ``dmon``."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any, Optional

from .collect_dmon import Dmon

# What a value is called, by the names that nvidia-smi has had for it; the first one that it knows is used.
FIELDS: dict[str, tuple[str, ...]] = {
    "index": ("index",),
    "uuid": ("uuid",),
    "pci": ("pci.bus_id",),
    "name": ("name",),
    "power_w": ("power.draw", "power.draw.instant", "power.draw.average"),
    "power_limit_w": ("enforced.power.limit", "power.limit"),
    "util": ("utilization.gpu",),
    "memory_used_mib": ("memory.used",),
    "memory_total_mib": ("memory.total",),
    "temperature_c": ("temperature.gpu",),
    "sm_clock_mhz": ("clocks.sm",),
    "throttle": ("clocks_event_reasons.active", "clocks_throttle_reasons.active"),
    "compute_capability": ("compute_cap",),
    "mig": ("mig.mode.current",),
    "recovery": ("gpu_recovery_action",),
    "ecc_uncorrected": ("ecc.errors.uncorrected.volatile.total",),
}
_TEXT = frozenset(("uuid", "pci", "name", "compute_capability", "recovery"))
_BAD_FIELD = re.compile(r'Field "([\w.]+)" is not a valid field')
_LOST = re.compile(r"device handle for (?:GPU ?)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)", re.IGNORECASE)
_PAUSE_S = 0.1
_SAID_KEPT = 4
_ODD_BUNCHES = 5

Reading = dict[str, Any]


def argv(program: str, tick_s: float, names: Sequence[str]) -> list[str]:
    """The command whose rows ``parse_row`` reads; ``names`` are nvidia-smi's own."""
    loop = str(max(100, int(tick_s * 1000)))
    return [program, f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits", f"--loop-ms={loop}"]


def parse_row(row: str, keys: Sequence[str]) -> Optional[Reading]:
    """One GPU of a row that has a word for each of ``keys``.

    What is not a number (``[N/A]``, ``[Not Supported]``, ``ERR!``) is not available. None for any other line.
    """
    words = [word.strip() for word in row.split(",")]
    if len(words) != len(keys) or not words[0].isdigit():
        return None
    reading: Reading = dict.fromkeys(FIELDS)
    for name, word in zip(keys, words):
        if name in _TEXT:
            reading[name] = None if _is_nothing(word) else word
        elif name == "mig":
            reading[name] = {"enabled": True, "disabled": False}.get(word.lower())
        else:
            reading[name] = _number(word)
    reading["index"] = int(words[0])
    reading["lost"] = reading["power_w"] is None and "ERR!" in words
    return reading


def lost_in(line: str) -> Optional[str]:
    """The PCI address of a GPU that nvidia-smi complains of having no handle for."""
    found = _LOST.search(line)
    return found[1] if found else None


def _is_nothing(word: str) -> bool:
    return word.startswith("[") or word in ("N/A", "ERR!", "")


def _number(word: str) -> Optional[float]:
    try:
        return int(word, 16) if word.startswith("0x") else float(word)
    except ValueError:
        return None


class Smi:
    """All GPUs, from one process. Raises OSError where there is no ``nvidia-smi`` or it ended."""

    via = "nvidia-smi"

    def __init__(self, tick_s: float) -> None:
        program = shutil.which("nvidia-smi")
        if program is None:
            raise FileNotFoundError("nvidia-smi is not there")
        self._program = program
        self._tick_s = tick_s
        self._bad: set[str] = set()
        self._start()
        self._dmon: Optional[Dmon] = None

    def _start(self) -> None:
        chosen = {key: next((name for name in names if name not in self._bad), None) for key, names in FIELDS.items()}
        self._keys = [key for key, name in chosen.items() if name]
        names = [name for name in chosen.values() if name]
        self._process = subprocess.Popen(
            argv(self._program, self._tick_s, names),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._held = b""
        self._said: list[str] = []

    def sample(self) -> list[Reading]:
        """The next bunch of rows: rows that follow each other closely belong together.

        Waits for as long as the driver does: a second query beside one that hangs would hang as well.
        """
        for _ in range(_ODD_BUNCHES + len(FIELDS)):
            rows, ended = self._bunch()
            readings = [reading for row in rows if (reading := parse_row(row, self._keys))]
            readings += [_lost(address) for row in rows if (address := lost_in(row))]
            self._said = [row for row in (*self._said, *rows) if row.strip() and not parse_row(row, self._keys)]
            self._said = self._said[-_SAID_KEPT:]
            if readings:
                # Not before the first answer: a dmon beside a query that hangs would hang as well.
                self._dmon = self._dmon or Dmon(self._program)
                self._dmon.merge(readings)
                return readings
            if ended and not self._without_bad_fields():
                said = "; ".join(self._said)
                raise OSError(f"nvidia-smi ended with {self._process.wait()}{': ' + said if said else ''}")
        raise OSError(f"nvidia-smi says nothing of a GPU: {'; '.join(self._said)}")

    def _bunch(self) -> tuple[list[str], bool]:
        assert self._process.stdout
        descriptor = self._process.stdout.fileno()
        rows: list[str] = []
        limit: Optional[float] = None
        while select.select([descriptor], [], [], limit)[0]:
            data = os.read(descriptor, 65536)
            if not data:
                rest, self._held = self._held, b""
                return [*rows, *([rest.decode(errors="replace")] if rest else [])], True
            *lines, self._held = (self._held + data).split(b"\n")
            rows += [line.decode(errors="replace") for line in lines]
            limit = min(_PAUSE_S, self._tick_s / 2)
        return rows, False

    def _without_bad_fields(self) -> bool:
        """Ask again without what nvidia-smi does not know; False when that was not its complaint."""
        bad = {name for line in self._said for name in _BAD_FIELD.findall(line)} - self._bad
        if not bad & {name for names in FIELDS.values() for name in names} - {"index"}:
            return False
        self._bad |= bad
        self._process.wait()
        self._start()
        return True

    def close(self) -> None:
        # SIGKILL would leave the driver with a client that it must clean up after.
        self._process.terminate()
        if self._dmon is not None:
            self._dmon.close()


def _lost(address: str) -> Reading:
    return {**dict.fromkeys(FIELDS), "index": None, "pci": address, "lost": True}
