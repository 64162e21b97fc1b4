"""The journal of the unit and of the kernel, followed by cursor through journalctl."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from .paths import Install

_MAX_LINE = 1 << 20
_AGAIN_S = 1.0
_DIGITS = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True)
class Entry:
    """One line. ``at`` is seconds since the epoch, ``source`` ``unit`` or ``kernel``.

    ``invocation`` is the start of the unit that wrote it, None where the journal does not say.
    """

    at: float
    source: str
    text: str
    cursor: str | None
    invocation: str | None
    pid: int | None


def parse(raw: bytes, source: str) -> Entry | None:
    """A line of ``journalctl -o json``; None when it is none. Bytes that are not UTF-8 are replaced."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    invocation = found.get("_SYSTEMD_INVOCATION_ID") or found.get("INVOCATION_ID")
    # systemd's own lines about the unit carry PID 1's invocation in the trusted field, if any.
    if found.get("_PID") == "1":
        invocation = found.get("INVOCATION_ID")
    micros = _whole(found.get("__REALTIME_TIMESTAMP"))
    cursor = found.get("__CURSOR")
    return Entry(
        at=time.time() if micros is None else micros / 1e6,
        source=source,
        text=_text(found.get("MESSAGE")),
        cursor=cursor if isinstance(cursor, str) else None,
        invocation=invocation if isinstance(invocation, str) else None,
        pid=_whole(found.get("_PID")),
    )


def _whole(word: Any) -> int | None:
    return int(word) if isinstance(word, str) and _DIGITS.fullmatch(word) else None


def _text(message: Any) -> str:
    """MESSAGE as text: journalctl gives bytes that are not UTF-8 as a list of numbers, and a long one as null."""
    while isinstance(message, list):
        with suppress(TypeError, ValueError):
            return bytes(message).decode("utf-8", "replace")
        message = message[-1]
    return message if isinstance(message, str) else ""


@dataclass
class Follower:
    """``journalctl -f`` for one selection; it is started again, behind the last line seen, whenever it ends."""

    install: Install
    source: str
    select_by: Sequence[str]
    after: str | None
    _process: subprocess.Popen[bytes] | None = None
    _partial: bytes = b""
    _started: float = field(default=float("-inf"))

    def fileno(self) -> int | None:
        """What to wait on, or None between two processes."""
        if self._process is None and time.monotonic() - self._started >= _AGAIN_S:
            self._start()
        if self._process is None or self._process.stdout is None:
            return None
        return self._process.stdout.fileno()

    def _start(self) -> None:
        behind = [f"--after-cursor={self.after}"] if self.after else []
        argv = [self.install.journalctl, "--no-pager", "-a", "-o", "json", *self.select_by, "-n", "all", *behind, "-f"]
        self._started = time.monotonic()
        self._partial = b""
        with suppress(OSError):
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
            )

    def read(self) -> list[Entry]:
        """The lines that have arrived; call when the descriptor is readable."""
        assert self._process is not None
        assert self._process.stdout is not None
        chunk = os.read(self._process.stdout.fileno(), 1 << 16)
        if not chunk:
            failed = self._process.wait() != 0 and time.monotonic() - self._started < _AGAIN_S
            self.close()
            if failed:
                # A cursor may have been vacuumed away; lines of other starts are told apart by their invocation.
                self.after = None
            return []
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        self._partial = self._partial[-_MAX_LINE:]
        found = [entry for entry in (parse(line, self.source) for line in lines) if entry]
        if found:
            self.after = found[-1].cursor or self.after
        return found

    def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        with suppress(OSError):
            self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None


class Journal:
    """The unit's and the kernel's lines from one cursor on."""

    def __init__(self, install: Install, unit: str, after: str | None) -> None:
        self._followers = [
            Follower(install, "unit", ("-u", unit), after),
            Follower(install, "kernel", ("-k",), after),
        ]

    def wait(self, limit_s: float) -> list[Entry]:
        """The lines that arrive within ``limit_s``; returns with the first ones, or with none."""
        ready = {fd: follower for follower in self._followers if (fd := follower.fileno()) is not None}
        if not ready:
            time.sleep(limit_s)
            return []
        readable, _, _ = select.select(list(ready), [], [], limit_s)
        return [entry for fd in readable for entry in ready[fd].read()]

    def close(self) -> None:
        for follower in self._followers:
            follower.close()
