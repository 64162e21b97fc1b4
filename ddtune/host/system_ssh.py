"""The system's own ``ssh`` as a transport, for configurations that only it can honour.

One master in the foreground holds the login; commands go through its socket, which lies in a folder of this user's.
What the configuration says of trust and of the way stands; host keys are always checked, and nothing is forwarded.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence

from ddtune.host.connection import STDERR_KEPT, Connection, Result, Stream, last_line
from ddtune.host.errors import Unreachable
from ddtune.host.processes import end
from ddtune.host.target import Route

_CHUNK = 65536
_POLL_S = 0.05
_LOST = 255
_OPTIONS = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "NoHostAuthenticationForLocalhost": "no",
    "UpdateHostKeys": "no",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "ForkAfterAuthentication": "no",
    "StdinNull": "no",
    "ControlPersist": "no",
    "EscapeChar": "none",
    "ServerAliveInterval": "10",
    "ServerAliveCountMax": "3",
    "LogLevel": "DEBUG1",
}
# What ssh says: the cause, and what to do. The first that is found counts.
_SAID = (
    (r"revoked", "changed_host_key", "its host key is marked as revoked"),
    (
        r"IDENTIFICATION HAS CHANGED",
        "changed_host_key",
        "its host key changed; compare it on the host before replacing",
    ),
    (r"Certificate invalid", "unknown_host_key", "the certificate of its host key is not valid"),
    (r"host key is known for .* strict|Host key verification failed", "unknown_host_key", "its host key is not known"),
    (r"Too many authentication failures", "auth_failed", "it hung up after too many keys: name one with IdentityFile"),
    (r"Permission denied", "auth_failed", "it did not let the user in"),
    (r"Could not resolve hostname", "name_not_found", "no address is known for it"),
    (r"Connection refused", "refused", "it refuses connections: does sshd run there, on that port?"),
    (r"timed out", "timeout", "it did not answer in time"),
    (r"Bad configuration option|bad configuration|Unsupported option", "unsupported_option", "ssh's configuration"),
    (r"no matching .* found", "protocol", "it and ssh agree on no way to encrypt"),
    (r"No route to host|unreachable|forwarding failed", "no_route", "there is no way to it"),
)
_KEY = re.compile(r"Server host key: (\S+) (\S+)")
_FORWARDS = re.compile(r"debug1: channel_connect_stdio_fwd:? (\S+)")


@contextlib.asynccontextmanager
async def open_system(route: Route, hops: Sequence[Route] = ()) -> AsyncIterator[SystemConnection]:
    """A connection over ``ssh`` by way of ``hops``, closed at the end. Raises ``Unreachable``."""
    ssh = shutil.which("ssh")
    assert ssh is not None, "the route came from ssh itself"
    # /tmp and not the runtime folder: a socket's path has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="ddtune-ssh-") as folder:
        socket = f"{folder}/s"
        base = [ssh, *_base(route)]
        way = ["-o", f"ProxyCommand={_over(ssh, hops)}"] if hops else []
        master = await asyncio.create_subprocess_exec(
            *[*base, *way, "-o", "ControlMaster=yes", "-S", socket, "-o", "SessionType=none", "--", route.alias],
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            start_new_session=True,
        )
        heard = _Heard(master)
        try:
            await _until_up(route, hops, master, socket, heard)
            # A socket that is gone must not lead to a second login.
            through = [
                *base,
                "-o",
                "ControlMaster=no",
                "-o",
                "ProxyCommand=false",
                "-S",
                socket,
                "--",
                route.alias,
            ]
            connection = SystemConnection(route, through, master, heard)
            try:
                yield connection
            finally:
                await connection.close()
        finally:
            with contextlib.suppress(ProcessLookupError):
                master.terminate()
            await master.wait()
            await heard.close()
            await end(master)


class _Heard:
    """What the master says on standard error; only its last part is kept."""

    def __init__(self, master: Process) -> None:
        self.text = ""
        self.key = "none"
        self._task = asyncio.ensure_future(self._read(master))

    async def _read(self, master: Process) -> None:
        assert master.stderr is not None
        while chunk := await master.stderr.read(_CHUNK):
            self.text = (self.text + chunk.decode(errors="replace"))[-_CHUNK:]
            for kind, fingerprint in _KEY.findall(self.text):
                self.key = f"{kind} {fingerprint}"

    async def close(self) -> None:
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(self._task, 2)


def _base(route: Route) -> list[str]:
    options = [word for name, value in _OPTIONS.items() for word in ("-o", f"{name}={value}")]
    return [*options, "-T", "-p", str(route.port), "-l", route.user]


def _over(ssh: str, hops: Sequence[Route]) -> str:
    """The ProxyCommand that leads over ``hops``, the first one first.

    ssh's own ProxyJump would reach them with none of these options, so that a hop's key could go unchecked.
    """
    command = ""
    for hop in hops:
        # What is inside is expanded once more for each ssh around it.
        inside = ["-o", f"ProxyCommand={command.replace('%', '%%')}"] if command else []
        # An IPv6 zone has a % of its own.
        alias = hop.alias.replace("%", "%%")
        command = shlex.join([ssh, *_base(hop), *inside, "-o", "ControlPath=none", "-W", "[%h]:%p", "--", alias])
    return command


async def _until_up(route: Route, hops: Sequence[Route], master: Process, socket: str, heard: _Heard) -> None:
    """Returns once the login is done. Raises ``Unreachable``."""
    until = time.monotonic() + route.connect_timeout_s + route.login_timeout_s
    while not os.path.exists(socket):  # noqa: ASYNC240 (a look into a folder of our own)
        if master.returncode is not None:
            await heard.close()
            raise why(route, hops, heard.text)
        if time.monotonic() > until:
            raise Unreachable(
                "timeout", f"ssh did not log in to {route.label} in time: is a touch, a code or a password awaited?"
            )
        await asyncio.sleep(_POLL_S)


def why(route: Route, hops: Sequence[Route], said: str) -> Unreachable:
    """Why ssh did not log in, from what it wrote; names the hop where it was one on the way."""
    own = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith(("debug1:", "OpenSSH_"))]
    found = [(*one[1:], line) for one in _SAID for line in own if re.search(one[0], line, re.IGNORECASE)]
    # What ssh says when a ProxyCommand has ended, before or behind its words.
    ended = any("UNKNOWN port" in line for line in own)
    words = [
        line for line in own if "UNKNOWN port" not in line and not line.startswith(("kex_exchange", "banner exch"))
    ]
    last = ((words if ended else own) or own or ["nothing"])[-1]
    lost = ("lost", "its ProxyCommand ended" if ended and route.proxy_command else "ssh ended", last)
    cause, sentence, line = found[0] if found else lost
    shown = _KEY.findall(said)
    key = f" (it shows {' '.join(shown[-1])})" if shown and "host_key" in cause else ""
    # Each hop that lets the user in asks for the next one on the way.
    passed = len(_FORWARDS.findall(said))
    where = f"its jump host {hops[passed].alias}" if passed < len(hops) and cause != "unsupported_option" else ""
    way = f", on the way over {', '.join(hop.alias for hop in hops)}" if hops else ""
    failed = f"{route.label} cannot be reached{way}: {where + ': ' if where else ''}{sentence}{key}"
    return Unreachable(cause, f"{failed}; ssh says: {line[:300]}")


class SystemStream(Stream):
    """A running command in an ``ssh`` of its own, through the master."""

    def __init__(self, connection: SystemConnection, process: Process, max_line: int) -> None:
        super().__init__(max_line)
        self._connection = connection
        self._process = process
        self._errors = asyncio.ensure_future(self._read_errors())

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except OSError as error:
            label = self._connection.label
            raise Unreachable("lost", f"the command on {label} takes no more input: {error}.") from None

    @property
    def rc(self) -> int | None:
        return self._process.returncode

    async def close(self, wait_s: float = 2.0) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), wait_s)
        await self._connection.ended(self._process)
        self._errors.cancel()

    async def _read(self) -> bytes:
        assert self._process.stdout is not None
        chunk = await self._process.stdout.read(_CHUNK)
        if not chunk:
            await self._connection.check(await self._process.wait())
        return chunk

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(_CHUNK):
            self._err = (self._err + _own_words(chunk))[-STDERR_KEPT:]


class SystemConnection(Connection):
    """One login held by ``ssh``, an ``ssh`` of its own for each command."""

    def __init__(self, route: Route, through: list[str], master: Process, heard: _Heard) -> None:
        super().__init__(route)
        self._through = through
        self._master = master
        self._heard = heard
        self._echo: Stream | None = None
        self._echoing = asyncio.Lock()
        self._running: set[Process] = set()

    @property
    def host_key(self) -> str:
        return self._heard.key

    async def run(
        self,
        argv: Sequence[str],
        stdin: bytes = b"",
        timeout: float | None = 30.0,
        max_output: int = 8 << 20,
    ) -> Result:
        process = await self._start(argv)
        try:
            async with asyncio.timeout(timeout):
                (out, cut), (err, _), _ = await asyncio.gather(
                    _read(process.stdout, max_output), _read(process.stderr, max_output), _feed(process, stdin)
                )
                rc = await process.wait()
        except TimeoutError:
            raise self._overdue(argv, timeout) from None
        finally:
            await self.ended(process)
        await self.check(rc)
        return Result(rc, out, _own_words(err), cut)

    async def stream(self, argv: Sequence[str], max_line: int = 4 << 20) -> Stream:
        return SystemStream(self, await self._start(argv), max_line)

    async def rtt(self, timeout: float = 10.0) -> float:
        """As :class:`Connection` has it, by a line that a command on the host gives back."""
        async with self._echoing:
            try:
                async with asyncio.timeout(timeout):
                    if self._echo is None:
                        self._echo = await self.stream(["cat"])
                        await self._say(self._echo)
                    begun = time.monotonic()
                    await self._say(self._echo)
                    return time.monotonic() - begun
            except (TimeoutError, StopAsyncIteration):
                raise Unreachable("lost", f"{self.label} does not answer any more.") from None

    async def _say(self, echo: Stream) -> None:
        await echo.write(b".\n")
        await anext(aiter(echo))

    async def check(self, rc: int) -> None:
        """Raises ``Unreachable('lost')`` where status ``rc`` is ssh's own word for a link that broke."""
        if rc != _LOST:
            return
        # The command's own status may be 255 as well; then the master lives on.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._master.wait(), 0.5)
        if self._master.returncode is not None:
            raise Unreachable("lost", f"the link to {self.label} is lost: {last_line(self._heard.text.encode())}.")

    async def _start(self, argv: Sequence[str]) -> Process:
        if self._master.returncode is not None:
            raise Unreachable("lost", f"the link to {self.label} is lost.")
        process = await asyncio.create_subprocess_exec(
            *self._through, shlex.join(argv), stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        self._running.add(process)
        return process

    async def ended(self, process: Process) -> None:
        """Ends one command's ``ssh``."""
        self._running.discard(process)
        await end(process)

    async def close(self) -> None:
        """Ends the commands that still run."""
        for process in list(self._running):
            await self.ended(process)


def _own_words(err: bytes) -> bytes:
    """Standard error without what ssh itself tells of its doing."""
    return b"".join(line for line in err.splitlines(keepends=True) if not line.startswith(b"debug1: "))


async def _feed(process: Process, stdin: bytes) -> None:
    assert process.stdin is not None
    # A command may end without reading all of it; its exit status says why.
    with contextlib.suppress(OSError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _read(reader: asyncio.StreamReader | None, limit: int) -> tuple[bytes, bool]:
    assert reader is not None
    parts: list[bytes] = []
    room, cut = limit, False
    while chunk := await reader.read(_CHUNK):
        cut = cut or len(chunk) > room
        parts.append(chunk[:room])
        room = max(0, room - len(chunk))
    return b"".join(parts), cut
