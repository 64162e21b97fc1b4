"""GPU readings from one ``nvidia-smi`` query that is kept open, where NVML cannot be loaded; GPM's from ``dmon``."""

from __future__ import annotations

import math
import os
import re
import select
import shutil
import subprocess
from collections import deque
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
_LOST_WORDS = frozenset(("ERR!", "[GPU is lost]"))
# Behind the last row that is expected: of a GPU that came back.
_PAUSE_S = 0.1
# Between two rows where nobody knows how many there are.
_LATE_S = 1.0
# A query beside Xid 119 takes 45 s.
_HUNG_S = 60.0
_SAID_KEPT = 4
_ODD_BUNCHES = 5

Reading = dict[str, Any]


def argv(program: str, tick_s: float, names: Sequence[str]) -> list[str]:
    """The command whose rows ``parse_row`` reads; ``names`` are nvidia-smi's own."""
    loop = str(max(100, int(tick_s * 1000)))
    return [program, f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits", f"--loop-ms={loop}"]


def parse_row(row: str, keys: Sequence[str]) -> Optional[Reading]:
    """One GPU of a row that has a word for each of ``keys``.

    What is not a number (``[N/A]``, ``[Not Supported]``, ``ERR!``, ``nan``) is not available; a GPU that is lost may
    lack its index too. None for any other line.
    """
    words = [word.strip() for word in row.split(",")]
    numbered = words[0].isascii() and words[0].isdigit()
    if len(words) != len(keys) or not (numbered or words[0] in _LOST_WORDS):
        return None
    reading: Reading = dict.fromkeys(FIELDS)
    for name, word in zip(keys, words):
        if name in _TEXT:
            reading[name] = None if _is_nothing(word) else word
        elif name == "mig":
            reading[name] = {"enabled": True, "disabled": False}.get(word.lower())
        else:
            reading[name] = _number(word)
    reading["index"] = int(words[0]) if numbered else None
    reading["lost"] = reading["power_w"] is None and not _LOST_WORDS.isdisjoint(words)
    return reading


def lost_in(line: str) -> Optional[str]:
    """The PCI address of a GPU that nvidia-smi complains of having no handle for."""
    found = _LOST.search(line)
    return found[1] if found else None


def _is_nothing(word: str) -> bool:
    return word.startswith("[") or word in ("N/A", "ERR!", "")


def _number(word: str) -> Optional[float]:
    try:
        found = int(word, 16) if word.startswith("0x") else float(word)
        return found if math.isfinite(found) else None
    except (ValueError, OverflowError):
        return None


class Smi:
    """All GPUs, from one process. Raises OSError where there is no ``nvidia-smi`` or it ended.

    ``count`` is how many GPUs the driver is bound to; 0 where that is not known.
    """

    via = "nvidia-smi"

    def __init__(self, tick_s: float, count: int = 0) -> None:
        program = shutil.which("nvidia-smi")
        if program is None:
            raise FileNotFoundError("nvidia-smi is not there")
        self._program = program
        self._tick_s = tick_s
        self._bad: set[str] = set()
        self._count = count
        self._last = -1
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
        self._lines: deque[str] = deque()
        self._said: list[str] = []

    def sample(self) -> list[Reading]:
        """The next look at the GPUs. Where nvidia-smi says which are lost and no more, only those.

        Waits for as long as the driver does: a second query beside one that hangs would hang as well.
        """
        for _ in range(_ODD_BUNCHES + len(FIELDS)):
            bunch, ended = self._bunch()
            if bunch.readings:
                # Not before the first answer: a dmon beside a query that hangs would hang as well.
                self._dmon = self._dmon or Dmon(self._program)
                self._dmon.merge(bunch.readings)
                return bunch.readings
            if ended and not self._without_bad_fields():
                said = "; ".join(self._said)
                raise OSError(f"nvidia-smi ended with {self._process.wait()}{': ' + said if said else ''}")
        raise OSError(f"nvidia-smi says nothing of a GPU: {'; '.join(self._said)}")

    def _bunch(self) -> tuple[_Bunch, bool]:
        """One look, and whether it was the last one. It ends where the indexes begin again, or when all are there."""
        bunch = _Bunch()
        while True:
            while self._lines:
                line = self._lines.popleft()
                reading = parse_row(line, self._keys)
                if reading is None and line.strip():
                    self._said = [*self._said, line][-_SAID_KEPT:]
                if bunch.ended_by(reading):
                    self._lines.appendleft(line)
                    if not self._rest_of_the_last(bunch):
                        return self._taken(bunch), False
                    # Late rows of the look before.
                    self._count += len(bunch.readings)
                    bunch = _Bunch()
                    continue
                bunch.take(reading, line)
            whole = len(bunch.readings) >= self._count > 0 and not self._rest_of_the_last(bunch)
            silence_s = _PAUSE_S if whole else None if self._count or not bunch.rows else _LATE_S + 2 * self._tick_s
            more = self._more(silence_s)
            if more is None:
                return self._taken(bunch), False
            if not more:
                if self._count and not whole:
                    bunch.only_lost()
                return bunch, True

    def _rest_of_the_last(self, bunch: _Bunch) -> bool:
        return 0 <= self._last < bunch.first

    def _taken(self, bunch: _Bunch) -> _Bunch:
        self._count, self._last = len(bunch.readings), bunch.last
        return bunch

    def _more(self, silence_s: Optional[float]) -> Optional[bool]:
        """Read what comes next into the lines; False at the end, None after ``silence_s`` without any."""
        assert self._process.stdout
        descriptor = self._process.stdout.fileno()
        if not select.select([descriptor], [], [], _HUNG_S if silence_s is None else silence_s)[0]:
            if silence_s is not None:
                return None
            # Its end of input makes room for another one, however long the driver takes.
            self._said = [*self._said, f"no answer for {_HUNG_S:.0f} s"][-_SAID_KEPT:]
            self._process.terminate()
        data = os.read(descriptor, 65536)
        *lines, self._held = (self._held + data).split(b"\n")
        if not data and self._held:
            lines, self._held = [self._held], b""
        self._lines += [line.decode(errors="replace") for line in lines]
        return bool(data or lines)

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


class _Bunch:
    """What belongs together: rows of rising indexes, and complaints of GPUs that have none."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.rows = 0
        self.first = -1
        self.last = -1

    def ended_by(self, reading: Optional[Reading]) -> bool:
        """Whether ``reading`` is of the next look."""
        return reading is not None and reading["index"] is not None and reading["index"] <= self.last

    def take(self, reading: Optional[Reading], line: str) -> None:
        address = lost_in(line) if reading is None else None
        if address and all(one["pci"] != address for one in self.readings):
            self.readings.append({**dict.fromkeys(FIELDS), "index": None, "pci": address, "lost": True})
        if reading is None:
            return
        self.readings.append(reading)
        self.rows += 1
        if reading["index"] is not None:
            self.first = reading["index"] if self.first < 0 else self.first
            self.last = reading["index"]

    def only_lost(self) -> None:
        """Leave out the rows: others are missing that may be well."""
        self.readings = [one for one in self.readings if one["lost"]]
