"""Open an SSH connection to a host: explicit values only, host keys always checked, every failure one sentence.

Where the configuration asks for what asyncssh cannot honour, the system's own ``ssh`` is the transport.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import asyncssh

from ddtune.host.asyncssh_link import AsyncsshConnection
from ddtune.host.connection import Connection, last_line
from ddtune.host.errors import Unreachable
from ddtune.host.hostkeys import load_known_hosts, refusal
from ddtune.host.keys import usable
from ddtune.host.proxy import proxied
from ddtune.host.resolve import resolve
from ddtune.host.system_ssh import open_system
from ddtune.host.target import Route, Target

_KEEPALIVE_S = 10
_KEEPALIVE_MISSES = 3
_MOST_HOPS = 8
_LAST_WORDS_S = 0.1


@contextlib.asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Connection]:
    """A connection to ``target``, closed at the end. Raises ``Unreachable``; see its causes."""
    async with contextlib.AsyncExitStack() as stack:
        route = await resolve(target)
        hops = await hops_of(route)
        if any(one.system for one in (route, *hops)):
            yield await stack.enter_async_context(open_system(route, hops))
            return
        tunnel: asyncssh.SSHClientConnection | None = None
        before = ""
        for hop in hops:
            try:
                tunnel = await _open(stack, hop, tunnel, before)
            except Unreachable as error:
                way = ", ".join(one.label for one in hops)
                failed = f"{route.label} cannot be reached, on the way over {way}: {error.message}"
                raise Unreachable(error.cause, failed) from None
            stack.push_async_callback(_close, tunnel)
            before = hop.label
        ssh = await _open(stack, route, tunnel, before)
        stack.push_async_callback(_close, ssh)
        yield AsyncsshConnection(ssh, route)


async def hops_of(route: Route) -> list[Route]:
    """The jump hosts on the way to ``route``, the first one first, each as its own configuration has it.

    As OpenSSH does it, only the first of a list is reached by a ``ProxyJump`` of its own. Raises ``Unreachable``.
    """
    hops: list[Route] = []
    while route.jumps:
        listed = [await resolve(Target.parse(jump.removeprefix("ssh://"))) for jump in route.jumps]
        if len(hops) + len(listed) > _MOST_HOPS:
            raise Unreachable("no_route", f"the jump hosts of {route.label} lead through one another without end.")
        first, *others = listed
        hops = [first, *(replace(hop, jumps=(), proxy_command=None) for hop in others), *hops]
        route = first
    return hops


class _Client(asyncssh.SSHClient):
    """Notes how far the login came and which host key was shown."""

    def __init__(self, login_begins: asyncio.Event) -> None:
        self.answered = False
        self.shown: asyncssh.SSHKey | None = None
        self.address = ""
        self._login_begins = login_begins

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.answered = True
        # A ProxyCommand has none.
        self.address = (conn.get_extra_info("peername") or ("",))[0]

    def validate_host_public_key(self, _host: str, _addr: str, _port: int, key: asyncssh.SSHKey) -> bool:
        self.shown = key
        return False

    def begin_auth(self, _username: str) -> None:
        self._login_begins.set()


async def _open(
    stack: contextlib.AsyncExitStack, route: Route, tunnel: asyncssh.SSHClientConnection | None, before: str
) -> asyncssh.SSHClientConnection:
    """A login at ``route`` through ``tunnel``, which ends at the jump host ``before``, or through its ProxyCommand."""
    if not route.proxy_command:
        return await _login(route, tunnel, before, None)
    proxy = await stack.enter_async_context(proxied(route.proxy_command))
    try:
        return await _login(route, None, before, proxy.sock)
    except Unreachable as error:
        # What it had to say may still be on the way.
        await asyncio.sleep(_LAST_WORDS_S)
        said = last_line(proxy.heard)
        if error.cause not in ("lost", "timeout", "no_route") or not said:
            raise
        raise Unreachable(error.cause, f"{error.message.rstrip('.')}; its ProxyCommand says: {said}") from None


async def _login(
    route: Route, tunnel: asyncssh.SSHClientConnection | None, before: str, proxy: socket.socket | None
) -> asyncssh.SSHClientConnection:
    known = load_known_hosts(route.known_hosts)
    keys, halves, tried = usable(route)
    login_begins = asyncio.Event()
    client = _Client(login_begins)
    try:
        async with asyncio.timeout(route.connect_timeout_s) as limit:
            extend = asyncio.ensure_future(_extend(limit, login_begins, route.login_timeout_s))
            try:
                return await asyncssh.connect(
                    # As OpenSSH has it, in certificates and known_hosts too.
                    route.host.lower(),
                    route.port,
                    config=[],
                    options=None,
                    tunnel=tunnel or (),
                    sock=proxy,
                    client_factory=lambda: client,
                    username=route.user,
                    known_hosts=known,
                    host_key_alias=route.host_key_alias,
                    client_keys=keys,
                    agent_path=route.agent or "",
                    agent_identities=[*(key.public_data for key in keys), *halves] if route.identities_only else (),
                    preferred_auth=("gssapi-with-mic", "publickey"),
                    agent_forwarding=False,
                    x11_forwarding=False,
                    login_timeout=0,
                    keepalive_interval=_KEEPALIVE_S,
                    keepalive_count_max=_KEEPALIVE_MISSES,
                )
            finally:
                extend.cancel()
    except TimeoutError:
        raise Unreachable("timeout", _timeout_message(route, client, login_begins.is_set())) from None
    except asyncssh.HostKeyNotVerifiable as error:
        raise refusal(route, known, client.shown, client.address, error.reason) from None
    except asyncssh.PermissionDenied:
        raise Unreachable("auth_failed", _auth_message(route, tried)) from None
    except asyncssh.KeyExchangeFailed as error:
        if "host key" in error.reason.lower():
            raise refusal(route, known, None, client.address) from None
        raise Unreachable("protocol", f"{route.label} and ddtune agree on no way to encrypt: {error.reason}.") from None
    except socket.gaierror:
        raise Unreachable(
            "name_not_found", f"no address is known for {route.host}: check the name {route.label} and the DNS."
        ) from None
    except ConnectionRefusedError:
        raise Unreachable(
            "refused",
            f"{route.label} refuses connections on {route.host} port {route.port}: does sshd run there, on that port?",
        ) from None
    except asyncssh.ChannelOpenError as error:
        raise Unreachable(
            "no_route",
            f"the jump host {before} cannot reach {route.label} ({route.host} port {route.port}): {error.reason}.",
        ) from None
    except (asyncssh.Error, OSError) as error:
        cause = "lost" if client.answered else "no_route"
        said = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        if "too many authentication failures" in said.lower():
            raise Unreachable("auth_failed", _too_many_message(route, tried)) from None
        if route.proxy_command:
            raise Unreachable(cause, f"{route.label} cannot be reached by its ProxyCommand: {said}.") from None
        raise Unreachable(cause, f"{route.label} ({route.host} port {route.port}) cannot be reached: {said}.") from None


async def _extend(limit: asyncio.Timeout, begins: asyncio.Event, login_timeout_s: float) -> None:
    # A login may wait for a touch or a code; a host that says nothing at all may not take that long.
    await begins.wait()
    limit.reschedule(asyncio.get_running_loop().time() + login_timeout_s)


def _timeout_message(route: Route, client: _Client, login_began: bool) -> str:
    where = f"{route.host} port {route.port}{' by its ProxyCommand' if route.proxy_command else ''}"
    if login_began:
        return (
            f"the login to {route.label} did not end within {route.login_timeout_s:.0f} s: is a touch or code awaited?"
        )
    if client.answered:
        return (
            f"{route.label} ({where}) took the connection and said nothing for {route.connect_timeout_s:.0f} s:"
            " is the host overloaded or hung?"
        )
    return (
        f"{route.label} ({where}) did not answer within {route.connect_timeout_s:.0f} s: is it up, is there a firewall?"
    )


def _auth_message(route: Route, tried: list[str]) -> str:
    keys = ", ".join(tried) if tried else "no key: none was found and no agent runs"
    return f"{route.label} did not let {route.user} in; tried {keys}: check the user and ~/.ssh/authorized_keys there."


def _too_many_message(route: Route, tried: list[str]) -> str:
    return (
        f"{route.label} hung up after too many keys that it does not take; tried {', '.join(tried)}: name the right one"
        " with IdentityFile and IdentitiesOnly yes for this host in ~/.ssh/config."
    )


async def _close(ssh: asyncssh.SSHClientConnection) -> None:
    ssh.close()
    try:
        async with asyncio.timeout(2):
            await ssh.wait_closed()
    except TimeoutError:
        ssh.abort()
