"""A ProxyCommand as the way to a host. asyncssh's own takes its standard error for words of the host's."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass

from ddtune.host.processes import end

_KEPT = 4096


@dataclass
class Proxy:
    """``sock`` leads to the host; ``heard`` is the last of what the command has said on its standard error."""

    sock: socket.socket
    heard: bytes = b""


@contextlib.asynccontextmanager
async def proxied(command: str) -> AsyncIterator[Proxy]:
    """``command`` as OpenSSH runs it, ended with the block."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours:
        with theirs:
            way = theirs.fileno()
            process = await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", f"exec {command}", stdin=way, stdout=way, stderr=PIPE, start_new_session=True
            )
        proxy = Proxy(ours)
        hearing = asyncio.ensure_future(_hear(process, proxy))
        try:
            yield proxy
        finally:
            await end(process)
            hearing.cancel()
            await asyncio.wait((hearing,))


async def _hear(process: Process, proxy: Proxy) -> None:
    assert process.stderr is not None
    while chunk := await process.stderr.read(_KEPT):
        proxy.heard = (proxy.heard + chunk)[-_KEPT:]
