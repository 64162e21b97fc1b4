"""A real SSH server on loopback that runs commands as this user, for the tests of the host room."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

from ddtune.host.connection import Connection
from ddtune.host.target import Target


@dataclass(frozen=True)
class Server:
    port: int
    known_hosts: Path
    identity: Path
    connections: set[asyncssh.SSHServerConnection] = field(default_factory=set)

    async def drop_all(self) -> None:
        """Break every connection without a word."""
        for connection in tuple(self.connections):
            connection.abort()
            await connection.wait_closed()

    def target(self, **changed: object) -> Target:
        values = {"host": "127.0.0.1", "port": self.port, "user": "ops", "name": "box"}
        values |= {"identity": self.identity, "known_hosts": self.known_hosts}
        return Target(**(values | changed))  # type: ignore[arg-type]  # built from names


@contextlib.asynccontextmanager
async def serve(folder: Path) -> AsyncIterator[Server]:
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    client_key = asyncssh.generate_private_key("ssh-ed25519")
    identity = folder / "id"
    client_key.write_private_key(str(identity))
    identity.chmod(0o600)
    authorized = asyncssh.import_authorized_keys(client_key.export_public_key().decode())
    connections: set[asyncssh.SSHServerConnection] = set()

    class Watching(asyncssh.SSHServer):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            connections.add(conn)

    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[host_key],
        authorized_client_keys=authorized,
        server_factory=Watching,
        process_factory=_run,
        encoding=None,
    )
    port = server.get_port()
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(f"[127.0.0.1]:{port} {host_key.export_public_key().decode()}")
    try:
        yield Server(port, known_hosts, identity, connections)
    finally:
        server.close()
        await server.wait_closed()


async def _run(process: asyncssh.SSHServerProcess[bytes]) -> None:
    child = await asyncio.create_subprocess_shell(
        process.command or "true",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert child.stdin
    assert child.stdout
    assert child.stderr
    feeding = asyncio.ensure_future(_pump(process.stdin, child.stdin))
    await asyncio.gather(_pump(child.stdout, process.stdout), _pump(child.stderr, process.stderr))
    process.exit(await child.wait())
    feeding.cancel()


async def _pump(reader: Any, writer: Any) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if isinstance(writer, asyncio.StreamWriter):
            writer.close()


async def lines_come_and_go(conn: Connection) -> None:
    """A command takes input and gives lines; one that is too long is left out and counted."""
    stream = await conn.stream(["cat"], max_line=10)
    lines = aiter(stream)
    await stream.write(b"one\ntw")
    assert await anext(lines) == b"one"
    await stream.write(b"o\n" + b"x" * 30 + b"\nthree\n")
    assert [await anext(lines), await anext(lines)] == [b"two", b"three"]
    assert stream.skipped == 1
    await stream.close()
    assert stream.rc == 0
