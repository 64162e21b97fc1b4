"""Watches one service and the GPUs of its host, and writes what it sees as JSON lines. Changes nothing on the host.

Standard input: one JSON line (``collect_config.Config``), then anything at all as a heartbeat. The collector ends, with
its children, at end of input or after ``silence_s`` without a heartbeat.
"""

from __future__ import annotations

import getpass
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Optional

from . import clock, journal_access
from .api import flag_value
from .collect_api import Api, Info, Key, Once
from .collect_config import Config, parse
from .collect_ddtune import Ddtune
from .collect_gpu import Gpus
from .collect_journal import JSON, Follower
from .collect_keys import Keys
from .collect_outbox import LOG_BYTES_SENT, Outbox, Packer
from .collect_unit import Unit, find_units
from .collect_xid import XidEvents
from .unit import Systemctl, SystemctlError

PROTO = 1
_FIRST_LINE_KEPT = 1 << 20
_DDTUNE_S = 5.0
_LOOK_AGAIN_S = 5.0
_FAILED_S = 1.0


def main(_arguments: list[str]) -> int:
    """Run until the operator is gone. 0 at an ordinary end, 2 when the first line is no configuration."""
    line = _first_line()
    try:
        config = parse(line)
    except (ValueError, TypeError) as error:
        print(f"ddtune collector: bad configuration: {error}", file=sys.stderr)
        return 2
    os.set_blocking(0, False)
    os.set_blocking(1, False)
    Collector(config).run()
    sys.stdout.flush()
    # A thread may be stuck in the driver; the interpreter would wait for it.
    os._exit(0)


def _first_line() -> bytes:
    data = b""
    # One byte at a time: the loader reads so too, and heartbeats behind the line must stay where they are.
    while len(data) < _FIRST_LINE_KEPT:
        byte = os.read(0, 1)
        if not byte or byte == b"\n":
            break
        data += byte
    return data


class Collector:
    """Samplers in threads of their own, since each of them may block; one loop that reads and writes."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._keys = Keys(config.api_key_file)
        self._outbox = Outbox(self._wake, self._keys.hidden)
        self._stopping = threading.Event()
        self._systemctl = Systemctl(config.install)
        self._poll = select.poll()
        self._gpus = Gpus(config.tick_s, config.root)
        self._followers: list[Follower] = []
        self._by_descriptor: dict[int, Follower] = {}
        self._look_again_at: Optional[float] = None
        self._packer = Packer() if config.packed else None

    def run(self) -> None:
        self._sample("GPU readings", lambda: [self._gpus.line()], self._config.tick_s)
        self._sample("Xids of NVML", XidEvents().lines, 0.0)
        self._look()
        try:
            self._loop()
        finally:
            self._stopping.set()
            self._gpus.end()
            for follower in self._followers:
                follower.stop()

    def _look(self) -> None:
        """Find the service, say hello, and watch it if there is one to watch."""
        unit = self._hello()
        self._look_again_at = time.monotonic() + _LOOK_AGAIN_S if unit is None else None
        if unit is not None:
            if journal_access.readable(self._config.root) is False:
                self._note(f"{journal_access.NO_PERMISSION}.")
            self._followers = [self._follower("unit", ["-u", unit]), self._follower("kernel", ["-k"])]
            self._start_samplers(unit)

    def _hello(self) -> Optional[str]:
        config, unit, units = self._config, self._config.unit, []
        try:
            units = find_units(self._systemctl, config.paths) if unit is None else [unit]
        except SystemctlError as error:
            self._note(f"systemd cannot be asked for its units: {error}.")
        if unit is None and len(units) == 1:
            unit = units[0]
        self._outbox.event(
            {
                "t": "hello",
                "proto": PROTO,
                "at": clock.wall(),
                "python": ".".join(map(str, sys.version_info[:3])),
                "boot_id": clock.boot_id(),
                "user": _user(),
                "uid": os.getuid(),
                "host": socket.gethostname(),
                "units": units,
                "unit": unit,
            }
        )
        if unit is None:
            self._note(
                "no sglang service was found here." if not units else f"name one of the services: {', '.join(units)}."
            )
        return unit

    def _start_samplers(self, name: str) -> None:
        config = self._config
        unit = Unit(self._systemctl, config.paths, name)
        self._keys.argv = lambda: unit.argv
        key = Key(config.api_key_file, lambda: unit.argv, self._note)
        unit.line()
        # The engine's own word for its port; the operator's, where its command line has none.
        named = flag_value(unit.argv, "--port") or ""
        port = int(named) if named.isdecimal() else config.api_port
        api = Api(port, key, self._note)
        info = Info(port, key, lambda: api.open, lambda: unit.invocation)
        self._sample("the API's answers", api.lines, config.tick_s)
        self._sample("the engine's account of itself", info.lines, max(1.0, config.tick_s))
        ddtune = Ddtune(config.paths.unit(name))
        self._sample("unit and files", _Service(unit, ddtune, self._note).lines, max(1.0, config.tick_s))

    def _sample(self, what: str, lines: Callable[[], list[dict[str, Any]]], every_s: float) -> None:
        said = Once(self._note)

        def work() -> None:
            due = time.monotonic()
            while not self._stopping.is_set():
                pause_s = every_s
                try:
                    for line in lines():
                        self._outbox.reading(line)
                except Exception as error:  # noqa: BLE001 (whatever one reading holds, the next ones go on)
                    said(f"{what} could not be read: {type(error).__name__}: {error}.")
                    pause_s = max(every_s, _FAILED_S)
                due = max(due + pause_s, time.monotonic())
                self._stopping.wait(due - time.monotonic())

        threading.Thread(target=work, daemon=True).start()

    def _follower(self, source: str, select_by: list[str]) -> Follower:
        config = self._config
        command = [config.install.journalctl, "--no-pager", *JSON, *select_by]
        cursor = config.cursors.get(source)
        return Follower(source, command, config.log_lines, cursor, self._outbox, self._note)

    def _loop(self) -> None:
        self._poll.register(0, select.POLLIN)
        self._poll.register(self._wake_read, select.POLLIN)
        pending, writing = b"", False
        heard = time.monotonic()
        while time.monotonic() - heard < self._config.silence_s:
            if self._look_again_at is not None and time.monotonic() >= self._look_again_at:
                self._look()
            for follower in self._followers:
                for descriptor in follower.start(time.monotonic()):
                    self._by_descriptor[descriptor] = follower
                    self._poll.register(descriptor, select.POLLIN)
            pending = _write(pending, self._next)
            if bool(pending) != writing:
                writing = bool(pending)
                self._poll.register(1, select.POLLOUT) if writing else self._poll.unregister(1)
            for descriptor, events in self._poll.poll(1000):
                if descriptor == 0:
                    if not _drain(0):
                        return
                    heard = time.monotonic()
                elif descriptor == self._wake_read:
                    _drain(descriptor)
                elif descriptor == 1 and events & (select.POLLERR | select.POLLHUP):
                    return
                elif descriptor in self._by_descriptor:
                    self._read(descriptor)

    def _next(self) -> bytes:
        """The next bytes for the operator, or none."""
        line = self._outbox.take() or b""
        if self._packer is None or not line:
            return line
        lines = [line]
        while sum(map(len, lines)) < LOG_BYTES_SENT and (line := self._outbox.take() or b""):
            lines.append(line)
        return self._packer.pack(b"".join(lines))

    def _read(self, descriptor: int) -> None:
        follower = self._by_descriptor[descriptor]
        if follower.read(descriptor):
            return
        self._poll.unregister(descriptor)
        del self._by_descriptor[descriptor]
        if follower not in self._by_descriptor.values():
            follower.ended()

    def _note(self, text: str) -> None:
        self._outbox.event({"t": "note", "at": clock.wall(), "text": text})

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:
            return  # It is full, so the loop wakes anyway.


class _Service:
    """The unit on each call; ddtune's own files when they changed, and now and then anyway."""

    def __init__(self, unit: Unit, ddtune: Ddtune, note: Callable[[str], None]) -> None:
        self._unit = unit
        self._ddtune = ddtune
        self._note = note
        self._sent: dict[str, Any] = {}
        self._sent_at = 0.0
        self._answered = True

    def lines(self) -> list[dict[str, Any]]:
        found = []
        unit = self._unit.line()
        if unit is not None:
            found.append(unit)
        elif self._answered:
            self._note(f"systemd does not answer for {self._unit.name}.")
        self._answered = unit is not None
        line = self._ddtune.line(self._unit.argv, self._unit.invocation)
        facts = {key: value for key, value in line.items() if key not in ("at", "boottime")}
        if facts != self._sent or time.monotonic() - self._sent_at > _DDTUNE_S:
            self._sent, self._sent_at = facts, time.monotonic()
            found.append(line)
        return found


def _write(pending: bytes, more: Callable[[], bytes]) -> bytes:
    """Write until nothing is left or the link takes no more; what could not be written."""
    while True:
        pending = pending or more()
        if not pending:
            return b""
        try:
            pending = pending[os.write(1, pending) :]
        except BlockingIOError:
            return pending
        except OSError:
            return b""  # The operator is gone; end of input says so next.


def _drain(descriptor: int) -> bool:
    """Throw away what can be read; False at end of file."""
    try:
        while data := os.read(descriptor, 65536):
            if len(data) < 65536:
                return True
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
