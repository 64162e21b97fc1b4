"""What waits to be sent: bounded, so that a slow link never holds up sampling and never fills memory."""

from __future__ import annotations

import base64
import json
import math
import threading
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any

READINGS_KEPT = 4
_SYNC = b"\x00\x00\xff\xff"
LOG_BYTES_KEPT = 1 << 20
LOG_BYTES_SENT = 1 << 16

Entry = Mapping[str, Any]


def encode(line: Mapping[str, Any]) -> bytes:
    """``line`` as one line of JSON. What is not finite is not available: JSON has no word for it."""
    try:
        text = json.dumps(line, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(line), separators=(",", ":"), allow_nan=False)
    return text.encode() + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, (list, tuple)) else value


class Outbox:
    """Lines by kind. Of readings the newest few are kept and the oldest dropped; log lines go in bunches, and a
    ``gap`` line stands where some were dropped. Safe to fill from any thread; ``wake`` is called after each filling,
    and ``hidden`` takes out of a log line what must not leave the host.
    """

    def __init__(
        self, wake: Callable[[], None] = lambda: None, hidden: Callable[[str], str] = lambda text: text
    ) -> None:
        self._lock = threading.Lock()
        self._wake = wake
        self._hidden = hidden
        self._events: deque[bytes] = deque(maxlen=64)
        self._readings: OrderedDict[str, deque[bytes]] = OrderedDict()
        self._logs: dict[str, _Log] = {}

    def event(self, line: Mapping[str, Any]) -> None:
        """A line that is sent before all readings, such as ``hello`` and ``note``."""
        with self._lock:
            self._events.append(encode(line))
        self._wake()

    def reading(self, line: Mapping[str, Any]) -> None:
        data = encode(line)
        with self._lock:
            self._readings.setdefault(line["t"], deque(maxlen=READINGS_KEPT)).append(data)
        self._wake()

    def log(self, source: str, entry: Entry) -> None:
        entry = {**entry, "text": self._hidden(entry["text"])}
        with self._lock:
            self._logs.setdefault(source, _Log()).add(entry)
        self._wake()

    def gap(self, source: str, at: float, text: str) -> None:
        """Some of what the journal of ``source`` had is not among the lines, and why."""
        self.event({"t": "gap", "at": at, "source": source, "text": text})

    def take(self) -> bytes | None:
        """The next line to send, or None. Events first, then log lines, then the kind of reading that waits longest."""
        with self._lock:
            if self._events:
                return self._events.popleft()
            for source, log in self._logs.items():
                if line := log.take(source):
                    return line
            for kind, lines in self._readings.items():
                if lines:
                    self._readings.move_to_end(kind)
                    return lines.popleft()
        return None


class Packer:
    """Lines as one deflated stream, each piece a line of its own: readings differ little from one tick to the next."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(4, zlib.DEFLATED, -15)

    def pack(self, lines: bytes) -> bytes:
        data = self._deflate.compress(lines) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return b'{"z":"' + base64.b64encode(data[: -len(_SYNC)]) + b'"}\n'


class _Log:
    def __init__(self) -> None:
        self._entries: deque[tuple[int, Entry]] = deque()
        self._size = 0
        self._gap_at: float | None = None

    def add(self, entry: Entry) -> None:
        size = len(entry["text"]) + 200
        self._entries.append((size, entry))
        self._size += size
        while self._size > LOG_BYTES_KEPT:
            dropped, old = self._entries.popleft()
            self._size -= dropped
            self._gap_at = old["at"]

    def take(self, source: str) -> bytes | None:
        if self._gap_at is not None:
            at, self._gap_at = self._gap_at, None
            return encode({"t": "gap", "at": at, "source": source})
        entries: list[Entry] = []
        size = 0
        while self._entries and size < LOG_BYTES_SENT:
            length, entry = self._entries.popleft()
            entries.append(entry)
            size += length
        self._size -= size
        return encode({"t": "log", "source": source, "entries": entries}) if entries else None
