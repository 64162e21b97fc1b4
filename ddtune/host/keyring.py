"""Private keys that have a passphrase, asked for before a screen takes the terminal. Kept in this process alone."""

from __future__ import annotations

import contextlib
from pathlib import Path

import asyncssh

from ddtune.host.connect import hops_of
from ddtune.host.keys import PASSPHRASES, is_locked
from ddtune.host.resolve import resolve
from ddtune.host.target import Route, Target


async def locked_keys(target: Target) -> list[Path]:
    """The keys on the way to ``target`` that have a passphrase and that no agent holds. Raises ``Unreachable``."""
    route = await resolve(target)
    ways = [route, *await hops_of(route)]
    # What the system's own ssh needs, it asks an agent for.
    if any(way.system for way in ways):
        return []
    found: dict[Path, None] = {}
    for way in ways:
        held = await _held(way)
        for path in way.identities:
            if is_locked(path) and _half(path) not in held:
                found[path] = None
    return list(found)


def unlock(path: Path, passphrase: str) -> bool:
    """Keep ``passphrase`` for the key at ``path``; False when it is a wrong one."""
    try:
        asyncssh.read_private_key(path, passphrase)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, OSError, ValueError):
        return False
    PASSPHRASES[path] = passphrase
    return True


async def _held(route: Route) -> set[bytes]:
    """The public halves of the agent's keys."""
    if not route.agent:
        return set()
    with contextlib.suppress(OSError, asyncssh.Error, ValueError):
        async with asyncssh.connect_agent(route.agent) as agent:
            return {key.public_data for key in await agent.get_keys()}
    return set()


def _half(path: Path) -> bytes | None:
    try:
        return asyncssh.read_public_key(path.with_name(f"{path.name}.pub")).public_data
    except (asyncssh.KeyImportError, OSError, ValueError):
        return None
