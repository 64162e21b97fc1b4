"""A recording: what a host's collector said and what the link did, each line with the time at which it came.

A gzip file of JSON lines. The first says of what host it is; each other is ``{"at": seconds since the epoch, "line":
…}``, where a line is one of the collector's (docs/json.md) or of kind ``link``. It holds neither prompts nor keys.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.engine.log import hidden, sanitise

PROTO = 1
KIND = "ddtune recording"
FLUSH_EVERY_S = 1.0
_TXN_LEFT_OUT = ("canary", "fatal_patterns")


class BadRecording(Exception):  # noqa: N818 (reads as what it is)
    """The file is no recording that this ddtune can read; one sentence."""


@dataclass(frozen=True)
class Entry:
    """A line and when it came, in seconds since the epoch."""

    at: float
    line: Mapping[str, Any]


@dataclass(frozen=True)
class Recording:
    """``began`` and each entry's ``at`` are seconds since the epoch on the recorder's clock."""

    host: str
    began: float
    entries: tuple[Entry, ...]
    simulated: bool = False
    clock_scale: float = 1.0
    tick_s: float = 1.0

    @property
    def length_s(self) -> float:
        """Seconds from its begin to its last line."""
        return self.entries[-1].at - self.began if self.entries else 0.0


class Recorder:
    """Writes a new file, which only this user may read. ``take`` is a hub's tap. Raises OSError where it cannot begin;
    ``failed`` is why it could not go on.
    """

    def __init__(self, path: Path, config: HostConfig, began: float, tick_s: float = 1.0) -> None:
        raw = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._raw = os.fdopen(raw, "wb")
        self._size = 0
        self._file = gzip.GzipFile(fileobj=self._raw, mode="wb", mtime=0)
        self._flushed = began
        self.lines = 0
        self.failed: OSError | None = None
        head = {
            "kind": KIND,
            "proto": PROTO,
            "host": config.name,
            "began": began,
            "simulated": config.simulated,
            "clock_scale": config.clock_scale,
            "tick_s": tick_s,
        }
        self._write(head)

    def take(self, line: Mapping[str, Any], at: float) -> None:
        """Write one line without what must not be in it."""
        if self._file.closed or self.failed is not None:
            return
        try:
            self._write({"at": at, "line": cleaned(line)})
            self.lines += 1
            if at - self._flushed >= FLUSH_EVERY_S:
                self._flushed = at
                self._file.flush()
        except OSError as error:
            self.failed = error

    def close(self) -> int:
        """End the file; gives how many bytes were written. ``failed`` is set where its end could not be."""
        if self._file.closed:
            return self._size
        try:
            self._file.close()
        except OSError as error:
            self.failed = self.failed or error
        self._size = self._raw.tell()
        try:
            self._raw.close()
        except OSError as error:
            self.failed = self.failed or error
        return self._size

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n")


def cleaned(line: Mapping[str, Any]) -> dict[str, Any]:
    """A line without users' words and without keys; what is shown of it stays the same."""
    kind = line.get("t")
    if kind == "metrics":
        return dict(line)
    if kind == "log":
        entries = line.get("entries")
        return {**line, "entries": [_entry(one) for one in entries] if isinstance(entries, list) else []}
    found = {str(name): _hidden(value) for name, value in line.items()}
    txn = found.get("txn")
    if isinstance(txn, dict):
        found["txn"] = {name: value for name, value in txn.items() if name not in _TXN_LEFT_OUT}
    return found


def _entry(entry: Any) -> Any:
    return {**entry, "text": sanitise(str(entry.get("text") or ""))} if isinstance(entry, Mapping) else entry


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return hidden(value)
    if isinstance(value, Mapping):
        return {str(name): _hidden(one) for name, one in value.items()}
    return [_hidden(one) for one in value] if isinstance(value, list | tuple) else value


def read(path: Path) -> Recording:
    """A whole recording; of one whose writer was killed what there is. Raises BadRecording."""
    lines = _lines(path)
    head = lines[0] if lines else {}
    if head.get("kind") != KIND:
        raise BadRecording(f"{path} is no recording of ddtune's.")
    if head.get("proto") != PROTO:
        raise BadRecording(f"{path} was recorded by another ddtune (protocol {head.get('proto')}, this one {PROTO}).")
    entries = tuple(
        Entry(float(one["at"]), one["line"])
        for one in lines[1:]
        if isinstance(one.get("at"), int | float) and isinstance(one.get("line"), dict)
    )
    return Recording(
        host=str(head.get("host")),
        began=float(head.get("began") or 0.0),
        entries=entries,
        simulated=bool(head.get("simulated")),
        clock_scale=float(head.get("clock_scale") or 1.0),
        tick_s=float(head.get("tick_s") or 1.0),
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    try:
        with gzip.open(path, "rb") as file:
            for text in file:
                line = json.loads(text)
                if isinstance(line, dict):
                    found.append(line)
    except (EOFError, zlib.error, ValueError):
        # The rest was never written.
        return found
    except gzip.BadGzipFile:
        return []
    except OSError as error:
        raise BadRecording(f"{path} cannot be read: {error.strerror or error}.") from None
    return found
