"""The embedded host's journal: entries as ``journalctl -o json`` prints them, cursors, and the streams that fill it."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LINE_MAX = 48 * 1024
KEPT = 20_000
FILE_MAX = 32 * 1024 * 1024
_FIELD_MAX = 4096 - len("MESSAGE=")
_CURSOR = re.compile(r"s=([0-9a-f]{32});i=([0-9a-f]+);b=[0-9a-f]{32};m=[0-9a-f]+;t=[0-9a-f]+;x=[0-9a-f]+")


def boot_id() -> str:
    """This boot's id, without dashes."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")


@dataclass(frozen=True)
class Entry:
    """One line: its number in the journal, the units that ``-u`` finds it by, and its fields."""

    number: int
    units: tuple[str, ...]
    kernel: bool
    fields: Mapping[str, str]

    def json(self) -> bytes:
        """The entry as ``journalctl -o json`` prints it, newline included.

        As the real one does without ``--all``: a field of 4096 bytes or more is null, one with control characters or
        bytes that are not UTF-8 is a list of numbers.
        """
        message: object = self.fields["MESSAGE"]
        raw = self.fields["MESSAGE"].encode("utf-8", "surrogateescape")
        if len(raw) >= _FIELD_MAX:
            message = None
        elif any(0xDC80 <= ord(c) <= 0xDCFF or (c < " " and c not in "\n\t") or c == "\x7f" for c in str(message)):
            message = list(raw)
        return json.dumps({**self.fields, "MESSAGE": message}).encode() + b"\n"

    def short(self) -> bytes:
        """The entry as the default output prints it."""
        at = time.strftime("%b %d %H:%M:%S", time.localtime(int(self.fields["__REALTIME_TIMESTAMP"]) / 1e6))
        pid = f"[{self.fields['_PID']}]" if "_PID" in self.fields else ""
        text = f"{at} {self.fields['_HOSTNAME']} {self.fields['SYSLOG_IDENTIFIER']}{pid}: {self.fields['MESSAGE']}\n"
        return text.encode("utf-8", "surrogateescape")

    def cat(self) -> bytes:
        """The message alone."""
        return self.fields["MESSAGE"].encode("utf-8", "surrogateescape") + b"\n"


class Journal:
    """Keeps the newest entries in memory and appends all to a file that starts anew when it is full.

    ``on_unit_line`` sees each line of a unit's processes as ``(unit, invocation, pid, text)``.
    """

    def __init__(self, path: Path, hostname: str) -> None:
        self._file = path.open("ab")
        self._hostname = hostname
        self._boot = boot_id()
        self._id = secrets.token_hex(16)
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._number = 0
        self._waiting: set[asyncio.Event] = set()
        self.on_unit_line: Callable[[str, str, int, str], None] = lambda *_: None

    def manager(self, unit: str, invocation: str, text: str, priority: int = 6) -> None:
        """A line of systemd's own about a unit."""
        fields = {
            "_TRANSPORT": "journal",
            "_SYSTEMD_UNIT": "init.scope",
            "UNIT": unit,
            "INVOCATION_ID": invocation,
            "SYSLOG_IDENTIFIER": "systemd",
            "_COMM": "systemd",
            "_PID": "1",
        }
        self._append(text, priority, fields, (unit, "init.scope"))

    def unit(self, header: Mapping[str, Any], text: str) -> None:
        """A line of a unit's process; ``header`` is what its stream opened with."""
        unit, invocation, pid = header["unit"], header["invocation"], int(header["pid"])
        fields = {
            "_TRANSPORT": "stdout",
            "_SYSTEMD_UNIT": unit,
            "_SYSTEMD_INVOCATION_ID": invocation,
            "_SYSTEMD_CGROUP": f"/system.slice/{unit}",
            "_SYSTEMD_SLICE": "system.slice",
            "SYSLOG_IDENTIFIER": header["identifier"],
            "_PID": str(pid),
        }
        self._append(text, 6, fields, (unit,))
        self.on_unit_line(unit, invocation, pid, text)

    def kernel(self, text: str, priority: int = 4) -> None:
        """A line of the kernel's."""
        self._append(text, priority, {"_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel"}, (), kernel=True)

    def _append(
        self, text: str, priority: int, fields: Mapping[str, str], units: tuple[str, ...], *, kernel: bool = False
    ) -> None:
        self._number += 1
        wall, monotonic = time.time_ns() // 1000, time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        cursor = f"s={self._id};i={self._number:x};b={self._boot};m={monotonic:x};t={wall:x};x={secrets.randbits(63):x}"
        common = {
            "__CURSOR": cursor,
            "__REALTIME_TIMESTAMP": str(wall),
            "__MONOTONIC_TIMESTAMP": str(monotonic),
            "_BOOT_ID": self._boot,
            "_HOSTNAME": self._hostname,
            "PRIORITY": str(priority),
        }
        entry = Entry(self._number, units, kernel, {**common, **fields, "MESSAGE": text})
        self._entries.append(entry)
        if self._file.tell() > FILE_MAX:
            self._file.truncate(0)
        self._file.write(entry.json())
        self._file.flush()
        for event in self._waiting:
            event.set()

    def after(self, number: int) -> Iterator[Entry]:
        """Entries newer than the one numbered ``number``, oldest first."""
        if not self._entries or number >= self._number:
            return iter(())
        first = self._entries[0].number
        return (self._entries[at] for at in range(max(0, number + 1 - first), len(self._entries)))

    def seek(self, cursor: str) -> int:
        """The number that a cursor stands for; of a journal that is gone, the oldest kept. Raises ValueError."""
        match = _CURSOR.fullmatch(cursor)
        if match is None:
            raise ValueError(cursor)
        return int(match[2], 16) if match[1] == self._id else 0

    @property
    def last(self) -> Entry | None:
        return self._entries[-1] if self._entries else None

    async def follow(self, number: int) -> Iterator[Entry]:
        """Waits for an entry newer than ``number`` and gives all of them."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            while self._number <= number:
                event.clear()
                await event.wait()
        finally:
            self._waiting.discard(event)
        return self.after(number)

    def close(self) -> None:
        self._file.close()


class Stream(asyncio.Protocol):
    """One process's output: a line of JSON that says whose it is, then text. Empty lines are dropped, long ones cut."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._header: Mapping[str, Any] | None = None
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        while len(self._rest) > LINE_MAX and self._header is not None:
            self._line(self._rest[:LINE_MAX])
            self._rest = self._rest[LINE_MAX:]

    def eof_received(self) -> None:
        self._line(self._rest)
        self._rest = b""

    def _line(self, line: bytes) -> None:
        if self._header is None:
            self._header = json.loads(line) if line else None
            return
        for at in range(0, len(line), LINE_MAX):
            self._journal.unit(self._header, line[at : at + LINE_MAX].decode("utf-8", "surrogateescape"))
