"""Commands and streams over asyncssh."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import time
from collections.abc import Sequence

import asyncssh

from ddtune.host.connection import STDERR_KEPT, Connection, Result, Stream
from ddtune.host.errors import Unreachable
from ddtune.host.target import Route

_CHUNK = 65536


class AsyncsshStream(Stream):
    """A running command on a channel of its own."""

    def __init__(
        self,
        ssh: asyncssh.SSHClientConnection,
        process: asyncssh.SSHClientProcess[bytes],
        label: str,
        max_line: int,
    ) -> None:
        super().__init__(max_line)
        self._ssh = ssh
        self._process = process
        self._label = label
        self._errors = asyncio.ensure_future(self._read_errors())

    async def write(self, data: bytes) -> None:
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except (OSError, asyncssh.Error) as error:
            raise Unreachable("lost", f"the command on {self._label} takes no more input: {error}.") from None

    @property
    def rc(self) -> int | None:
        return self._process.returncode

    async def close(self, wait_s: float = 2.0) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            self._process.stdin.write_eof()
        try:
            async with asyncio.timeout(wait_s):
                await self._process.wait_closed()
        except TimeoutError:
            self._process.close()
        except (OSError, asyncssh.Error):
            pass
        self._errors.cancel()

    async def _read(self) -> bytes:
        try:
            chunk = await self._process.stdout.read(_CHUNK)
        except (OSError, asyncssh.Error) as error:
            raise Unreachable("lost", f"the link to {self._label} is lost: {error}.") from None
        if not chunk:
            await self._ended()
        return chunk

    async def _ended(self) -> None:
        # A broken link looks like end of file, but no exit status comes with it.
        with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
            async with asyncio.timeout(2):
                await self._process.wait_closed()
        if self._process.returncode is None and self._ssh.is_closed():
            raise Unreachable("lost", f"the link to {self._label} is lost.")

    async def _read_errors(self) -> None:
        try:
            while chunk := await self._process.stderr.read(_CHUNK):
                self._err = (self._err + chunk)[-STDERR_KEPT:]
        except (OSError, asyncssh.Error):
            return


class AsyncsshConnection(Connection):
    """One connection, a channel for each command."""

    def __init__(self, ssh: asyncssh.SSHClientConnection, route: Route) -> None:
        super().__init__(route)
        self._ssh = ssh

    @property
    def host_key(self) -> str:
        key = self._ssh.get_server_host_key()
        return f"{key.get_algorithm()} {key.get_fingerprint()}" if key else "none"

    async def run(
        self,
        argv: Sequence[str],
        stdin: bytes = b"",
        timeout: float | None = 30.0,
        max_output: int = 8 << 20,
    ) -> Result:
        try:
            async with asyncio.timeout(timeout):
                process = await self._start(argv)
                try:
                    return await _converse(process, stdin, max_output, self.label)
                finally:
                    process.close()
        except TimeoutError:
            raise self._overdue(argv, timeout) from None
        except (OSError, asyncssh.Error) as error:
            raise Unreachable("lost", f"the link to {self.label} is lost: {error}.") from None

    async def stream(self, argv: Sequence[str], max_line: int = 4 << 20) -> Stream:
        try:
            return AsyncsshStream(self._ssh, await self._start(argv), self.label, max_line)
        except (OSError, asyncssh.Error) as error:
            raise Unreachable("lost", f"the link to {self.label} is lost: {error}.") from None

    async def rtt(self, timeout: float = 10.0) -> float:
        """As :class:`Connection` has it, by a keepalive request, which no server acts on."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(timeout):
                # asyncssh has no public call that makes exactly one round trip; a new channel would measure the
                # host's login shell instead.
                await self._ssh._make_global_request(b"keepalive@openssh.com")
            if self._ssh.is_closed():
                raise Unreachable("lost", f"the link to {self.label} is lost.")
        except TimeoutError:
            raise Unreachable("lost", f"{self.label} does not answer any more.") from None
        except (OSError, asyncssh.Error) as error:
            raise Unreachable("lost", f"the link to {self.label} is lost: {error}.") from None
        return time.monotonic() - begun

    async def _start(self, argv: Sequence[str]) -> asyncssh.SSHClientProcess[bytes]:
        return await self._ssh.create_process(shlex.join(argv), encoding=None, request_pty=False)


async def _converse(process: asyncssh.SSHClientProcess[bytes], stdin: bytes, max_output: int, label: str) -> Result:
    async def feed() -> None:
        try:
            process.stdin.write(stdin)
            process.stdin.write_eof()
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError, asyncssh.Error):
            pass  # It ended without reading all of it; its exit status says why.

    async def read(reader: asyncssh.SSHReader[bytes]) -> tuple[bytes, bool]:
        parts: list[bytes] = []
        room, cut = max_output, False
        while chunk := await reader.read(_CHUNK):
            cut = cut or len(chunk) > room
            parts.append(chunk[:room])
            room = max(0, room - len(chunk))
        return b"".join(parts), cut

    _, (out, out_cut), (err, err_cut) = await asyncio.gather(feed(), read(process.stdout), read(process.stderr))
    await process.wait_closed()
    if process.returncode is None:
        raise Unreachable("lost", f"the link to {label} was lost while a command ran.")
    return Result(process.returncode, out, err, out_cut or err_cut)
