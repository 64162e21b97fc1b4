"""The journal of the unit and of the kernel, followed by cursor."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from . import clock
from .collect_outbox import Outbox

JSON = ("-o", "json", "-a", "--output-fields=MESSAGE,PRIORITY,_PID,_STREAM_ID,_LINE_BREAK")
"""How entries are asked for. Without ``-a`` a message of more than 4096 bytes is null."""
TEXT_KEPT = 8192
_LINE_KEPT = 4 << 20
_CUT = "line-max"
_STAMP = re.compile(r"[0-9]{1,18}")
_AGAIN_S = 2.0
_PR_SET_PDEATHSIG = 1
_KERNEL = re.compile(
    r"NVRM|Xid|nvidia|NVLink|nvswitch|out of memory|oom[-_]kill|oom_reaper|Killed process", re.IGNORECASE
)
_PROBES = re.compile(r'"GET /(?:metrics|ready|health|v1/loads|get_load|(?:get_)?server_info)\b[^"]*" 200\b')
_NO_PERMISSION = re.compile(r"not seeing messages|insufficient permissions|Permission denied", re.IGNORECASE)
_libc = ctypes.CDLL(None, use_errno=True)


def parse_entry(line: bytes) -> Optional[dict[str, Any]]:
    """One line of ``journalctl -o json`` as ``{at, cursor, text, priority, pid}``; None when it is none."""
    entry = _object(line)
    return None if entry is None else _entry(entry)


def _object(line: bytes) -> Optional[dict[str, Any]]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _entry(entry: Mapping[str, Any]) -> Optional[dict[str, Any]]:
    message = entry.get("MESSAGE")
    if isinstance(message, list):
        message = _decoded(message)
    stamp = entry.get("__REALTIME_TIMESTAMP")
    if not isinstance(message, str) or not isinstance(stamp, str) or not _STAMP.fullmatch(stamp):
        return None
    if len(message) > TEXT_KEPT or entry.get("_LINE_BREAK") == _CUT:
        message = message[:TEXT_KEPT] + " …"
    cursor = entry.get("__CURSOR")
    return {
        "at": int(stamp) / 1e6,
        "cursor": cursor if isinstance(cursor, str) else None,
        "text": message,
        "priority": _number(entry.get("PRIORITY")),
        "pid": _number(entry.get("_PID")),
    }


def _decoded(message: Sequence[Any]) -> str:
    """journald writes a message that is not text as its bytes, and several messages of one entry as a list."""
    texts = [part for part in message if isinstance(part, str)]
    if texts:
        return texts[-1]
    bytes_ = (byte for byte in message if isinstance(byte, int) and 0 <= byte < 256)
    return bytes(bytes_).decode(errors="replace")


class Follower:
    """One ``journalctl -f``, started again where it was when it ends. Read it when ``poll`` says so."""

    def __init__(
        self,
        source: str,
        command: Sequence[str],
        lines: int,
        cursor: Optional[str],
        outbox: Outbox,
        note: Callable[[str], None],
    ) -> None:
        self._source = source
        self._command = command
        self._lines = lines
        self._cursor = cursor
        self._outbox = outbox
        self._note = note
        self._noted: set[str] = set()
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._start_at = 0.0
        self._held = b""
        self._skipping = False
        self._said = b""
        self._cut: set[str] = set()

    def start(self, now: float) -> list[int]:
        """Start it if it is not there and its pause is over; the new descriptors to poll (output first)."""
        if self._process is not None or now < self._start_at:
            return []
        # Without a number of lines -f shows the last ten alone, whatever lies behind the cursor.
        from_where = [f"--after-cursor={self._cursor}", "-n", "all"] if self._cursor else ["-n", str(self._lines)]
        try:
            self._process = subprocess.Popen(
                [*self._command, *from_where, "-f"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=_end_with_parent,
            )
        except OSError as error:
            self._say(f"the journal cannot be read: {self._command[0]}: {error.strerror}.")
            self._start_at = now + 30.0
            return []
        assert self._process.stdout
        assert self._process.stderr
        self._held, self._said = b"", b""
        return [self._process.stdout.fileno(), self._process.stderr.fileno()]

    def read(self, descriptor: int) -> bool:
        """Take what is there; False at end of file."""
        data = os.read(descriptor, 65536)
        process = self._process
        if process is None or process.stdout is None or process.stderr is None:
            return False
        if descriptor == process.stderr.fileno():
            self._said = (self._said + data)[-2048:]
            self._read_said()
        else:
            self._read_lines(data)
        return bool(data)

    def ended(self) -> None:
        """Its output is at its end: collect it, and start it again after a pause."""
        process, self._process = self._process, None
        self._start_at = time.monotonic() + _AGAIN_S
        if process is None:
            return
        self._stop(process)
        if self._cursor and b"cursor" in self._said.lower():
            self._cursor = None
            self._outbox.gap(self._source, clock.wall(), "the journal no longer holds the place where reading stopped")

    def stop(self) -> None:
        if self._process is not None:
            self._stop(self._process)
        self._process = None

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()

    def _read_lines(self, data: bytes) -> None:
        *lines, rest = (self._held + data).split(b"\n")
        for line in lines:
            found = None if self._skipping else _object(line)
            self._skipping = False
            if found is not None:
                self._take(found)
        if len(rest) > _LINE_KEPT:
            rest, self._skipping = b"", True
            self._outbox.gap(self._source, clock.wall(), f"a line of more than {_LINE_KEPT >> 20} MiB")
        self._held = rest

    def _take(self, found: Mapping[str, Any]) -> None:
        entry = _entry(found)
        if entry is None:
            return
        self._cursor = entry["cursor"] or self._cursor
        if not self._continues(found) and matters(self._source, entry["text"]):
            self._outbox.log(self._source, entry)

    def _continues(self, found: Mapping[str, Any]) -> bool:
        """Whether this is the rest of a line that journald cut: what was printed behind its head stays on the host."""
        stream = found.get("_STREAM_ID")
        if not isinstance(stream, str):
            return False
        continues = stream in self._cut
        if found.get("_LINE_BREAK") == _CUT:
            self._cut.add(stream)
        else:
            self._cut.discard(stream)
        return continues

    def _read_said(self) -> None:
        if _NO_PERMISSION.search(self._said.decode(errors="replace")):
            if not self._noted:
                self._outbox.event({"t": "journal", "at": clock.wall(), "source": self._source, "readable": False})
            self._say(
                f"no permission to read the journal of the {self._source}: add this login to the group systemd-journal."
            )

    def _say(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._note(text)


def matters(source: str, text: str) -> bool:
    """Of the kernel what concerns GPUs and memory; of the unit all but answered probes, ours among them."""
    return _KERNEL.search(text) is not None if source == "kernel" else not _PROBES.search(text)


def _end_with_parent() -> None:
    # A collector that is killed leaves nothing behind on the host.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _number(value: Any) -> Optional[int]:
    text = str(value)
    return int(text) if isinstance(value, (str, int)) and text.isascii() and text.isdigit() and len(text) < 12 else None
