"""Commands and streams on an open SSH connection: the contract that each transport keeps."""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from ddtune.host.errors import Unreachable
from ddtune.host.target import Route

STDERR_KEPT = 4096


@dataclass(frozen=True)
class Result:
    """How a command ended. ``rc`` is negative where a signal ended it; ``truncated`` when output was left out."""

    rc: int
    out: bytes
    err: bytes
    truncated: bool = False

    @property
    def said(self) -> str:
        """The last line on standard error, for a message."""
        return last_line(self.err)


def last_line(err: bytes) -> str:
    """The last line of what a command wrote on standard error, or nothing."""
    lines = err.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


class Stream(abc.ABC):
    """A running command: lines out, bytes in. Ends at end of file on its standard input (``close``)."""

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        self._err = b""
        self.skipped = 0
        """Lines left out because they were longer than the limit."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Lines without their newline, until end of file. Raises ``Unreachable('lost')`` when the link breaks."""
        held, skipping = b"", False
        while True:
            chunk = await self._read()
            if not chunk:
                return
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                whole, held = held + line, b""
                if skipping or len(whole) > self._max_line:
                    self.skipped += 1
                    skipping = False
                else:
                    yield whole
            held = b"" if skipping else held + rest
            if len(held) > self._max_line:
                held, skipping = b"", True

    @property
    def said(self) -> str:
        """The last line on standard error so far."""
        return last_line(self._err)

    @property
    @abc.abstractmethod
    def rc(self) -> int | None:
        """The exit status once the command has ended."""

    @abc.abstractmethod
    async def write(self, data: bytes) -> None:
        """Give the command more input. Raises ``Unreachable('lost')``."""

    @abc.abstractmethod
    async def close(self, wait_s: float = 2.0) -> None:
        """Say end of file, wait a little for the command to end, then close the channel. Never raises."""

    @abc.abstractmethod
    async def _read(self) -> bytes:
        """The next bytes of standard output; empty at its end."""


class Connection(abc.ABC):
    """An open connection to one host. Made by ``connect``."""

    def __init__(self, route: Route) -> None:
        self._route = route

    @property
    def label(self) -> str:
        """What messages call the host."""
        return self._route.label

    @property
    def user(self) -> str:
        """The user that is logged in."""
        return self._route.user

    @property
    @abc.abstractmethod
    def host_key(self) -> str:
        """Kind and fingerprint of the key by which the host was known."""

    @abc.abstractmethod
    async def run(
        self,
        argv: Sequence[str],
        stdin: bytes = b"",
        timeout: float | None = 30.0,
        max_output: int = 8 << 20,
    ) -> Result:
        """Run one fixed argv without a terminal and wait for its end.

        Output past ``max_output`` bytes is read and thrown away. Raises ``Unreachable``: ``command_timeout`` after
        ``timeout`` seconds (the command may still run on the host), ``lost`` when the link breaks.
        """

    @abc.abstractmethod
    async def stream(self, argv: Sequence[str], max_line: int = 4 << 20) -> Stream:
        """Start a command and leave its input open. Lines longer than ``max_line`` bytes are left out and counted."""

    @abc.abstractmethod
    async def rtt(self, timeout: float = 10.0) -> float:
        """Seconds that one round trip takes."""

    def _overdue(self, argv: Sequence[str], timeout: float | None) -> Unreachable:
        text = f"{argv[0]} on {self.label} did not end within {timeout:g} s: is the host overloaded?"
        return Unreachable("command_timeout", text)
