"""The embedded host's sshd: key login, commands by ``/bin/sh -c``, forwards to its own loopback, nothing else."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import asyncssh

from ddtune.sim.children import Children

_SLACK = 256 * 1024


class _Output(asyncio.Protocol):
    """A pipe that the command writes to."""

    def __init__(self, session: Session, datatype: int | None) -> None:
        self._session = session
        self._datatype = datatype

    def data_received(self, data: bytes) -> None:
        self._session.send(data, self._datatype)

    def connection_lost(self, _: Exception | None) -> None:
        self._session.output_ended(self._datatype)


class _Input(asyncio.BaseProtocol):
    """The pipe that the command reads from: a full one holds the client back."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def pause_writing(self) -> None:
        self._session.hold(True)

    def resume_writing(self) -> None:
        # Not at once: a transport that is closed in this call drops what was written in it.
        asyncio.get_running_loop().call_soon(self._session.hold, False)


class Session(asyncssh.SSHServerSession[bytes]):
    """One channel. Its end closes the command's pipes and leaves the command running, as sshd does with no terminal."""

    def __init__(self, children: Children, env: Mapping[str, str]) -> None:
        self._children = children
        self._env = dict(env)
        self._chan: asyncssh.SSHServerChannel[bytes] | None = None
        self._command = ""
        self._pid: int | None = None
        self._early: list[bytes | None] = []
        self._pipes: dict[int | None, asyncio.ReadTransport] = {}
        self._input: asyncio.WriteTransport | None = None
        self._task: asyncio.Task[None] | None = None
        self._open: set[int | None] = {None, asyncssh.EXTENDED_DATA_STDERR}
        self._drained = asyncio.Event()

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._chan = chan

    def pty_requested(self, *_: object) -> bool:
        return False

    def shell_requested(self) -> bool:
        return False

    def exec_requested(self, command: str) -> bool:
        self._command = command
        return True

    def session_started(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        assert self._chan is not None
        child, ended = self._children.spawn(["/bin/sh", "-c", self._command], self._env, self._env["HOME"])
        self._pid = child.pid
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None  # noqa: PT018 - three pipes
        loop = asyncio.get_running_loop()
        pipes: tuple[tuple[int | None, IO[bytes]], ...] = (
            (None, child.stdout),
            (asyncssh.EXTENDED_DATA_STDERR, child.stderr),
        )
        for datatype, pipe in pipes:
            transport, _ = await loop.connect_read_pipe(functools.partial(_Output, self, datatype), pipe)
            self._pipes[datatype] = transport
        self._input, _ = await loop.connect_write_pipe(lambda: _Input(self), child.stdin)
        self._input.set_write_buffer_limits(high=_SLACK)
        early, self._early = self._early, []
        for data in early:
            self._pass_on(data)
        status = await ended
        await self._drained.wait()
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name[3:]
            self._chan.exit_with_signal(name, os.WCOREDUMP(status), "")
        else:
            self._chan.exit(os.WEXITSTATUS(status))

    # From the client to the command.

    def data_received(self, data: bytes, _: int | None) -> None:
        self._pass_on(data)

    def eof_received(self) -> bool:
        self._pass_on(None)
        return True

    def _pass_on(self, data: bytes | None) -> None:
        if self._input is None:
            self._early.append(data)
        elif data is None:
            self._input.close()
        elif not self._input.is_closing():
            self._input.write(data)

    def hold(self, full: bool) -> None:
        """Stops or goes on taking from the client."""
        if self._chan is not None:
            (self._chan.pause_reading if full else self._chan.resume_reading)()

    def signal_received(self, signame: str) -> None:
        number = getattr(signal, f"SIG{signame}", None)
        if self._pid is not None and number is not None and self._open:
            try:
                os.killpg(self._pid, number)
            except ProcessLookupError:
                return

    # From the command to the client.

    def send(self, data: bytes, datatype: int | None) -> None:
        """Sends what the command wrote."""
        if self._chan is not None and not self._chan.is_closing():
            self._chan.write(data, datatype)

    def output_ended(self, datatype: int | None) -> None:
        """Notes that the command closed a pipe, or that all that held it have ended."""
        self._open.discard(datatype)
        if not self._open:
            self._drained.set()

    def pause_writing(self) -> None:
        for pipe in self._pipes.values():
            pipe.pause_reading()

    def resume_writing(self) -> None:
        for pipe in self._pipes.values():
            pipe.resume_reading()

    def connection_lost(self, _: Exception | None) -> None:
        for pipe in self._pipes.values():
            pipe.close()
        if self._input is not None:
            self._input.close()
        if self._task is not None and self._pid is not None:
            self._task.cancel()


class _Server(asyncssh.SSHServer):
    def __init__(self, children: Children, env: Mapping[str, str]) -> None:
        self._children = children
        self._env = env
        self._peer = ""

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        peer, ours = conn.get_extra_info("peername"), conn.get_extra_info("sockname")
        self._peer = f"{peer[0]} {peer[1]} {ours[0]} {ours[1]}"

    def begin_auth(self, _: str) -> bool:
        return True

    def session_requested(self) -> Session:
        return Session(self._children, {**self._env, "SSH_CONNECTION": self._peer})

    def connection_requested(self, dest_host: str, *_: object) -> bool:
        return dest_host in ("127.0.0.1", "localhost", "::1")


class Keys:
    """The files of a freshly made host key and client key."""

    def __init__(self, root: Path) -> None:
        self.host_key = root / "etc/ssh/ssh_host_ed25519_key"
        self.authorized = root / "etc/ssh/authorized_keys"
        self.identity = root / "client/id_ed25519"
        self.known_hosts = root / "client/known_hosts"

    def make(self) -> None:
        """Writes new ones."""
        for path, comment in ((self.host_key, "embedded host"), (self.identity, "ddtune demo")):
            key = asyncssh.generate_private_key("ssh-ed25519", comment=comment)
            path.touch(0o600)
            key.write_private_key(path)
            key.write_public_key(path.with_name(path.name + ".pub"))
        self.authorized.write_bytes(self.identity.with_name("id_ed25519.pub").read_bytes())

    def trust(self, port: int) -> None:
        """Writes the known_hosts file for a server on ``port``."""
        kind, key = self.host_key.with_name(self.host_key.name + ".pub").read_text().split()[:2]
        self.known_hosts.write_text(f"[127.0.0.1]:{port} {kind} {key}\n")


async def serve(keys: Keys, children: Children, env: Mapping[str, str]) -> asyncssh.SSHAcceptor:
    """Listens on a free port of the loopback interface; commands get ``env`` and start in its HOME."""
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=lambda: _Server(children, env),
        server_host_keys=[keys.host_key],
        authorized_client_keys=str(keys.authorized),
        encoding=None,
        allow_pty=False,
        agent_forwarding=False,
        compression_algs=None,
    )
    keys.trust(server.get_port())
    return server
