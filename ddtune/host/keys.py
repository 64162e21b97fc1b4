"""The operator's private keys: what can be used without asking anybody."""

from __future__ import annotations

from pathlib import Path

import asyncssh

from ddtune.host.target import Route

PASSPHRASES: dict[Path, str] = {}
"""Of keys that were unlocked for this process."""


def usable(route: Route) -> tuple[list[asyncssh.SSHKeyPair], list[bytes], list[str]]:
    """Key pairs that can be used without asking anybody, public halves for the agent, and what was tried in words."""
    pairs: list[asyncssh.SSHKeyPair] = []
    halves: list[bytes] = []
    tried: list[str] = []
    certificates = [str(path) for path in route.certificates if path.is_file()]
    for path in route.identities:
        half = next((one for one in (path, path.with_name(f"{path.name}.pub")) if is_public(one)), None)
        if half is not None and (half == path or not path.is_file()):
            halves.append(asyncssh.read_public_key(half).public_data)
            tried.append(f"the agent's {half}")
            continue
        if not path.is_file():
            continue
        try:
            pairs += asyncssh.load_keypairs(str(path), passphrase=PASSPHRASES.get(path), certlist=certificates)
            tried.append(str(path))
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, OSError, ValueError) as error:
            why = "has a passphrase: ssh-add it" if is_locked(path) else f"cannot be read: {error}"
            tried.append(f"{path} ({why})")
    if route.agent and not (halves and route.identities_only):
        tried.append("the agent's keys")
    return pairs, halves, tried


def is_locked(path: Path) -> bool:
    """Whether ``path`` holds a private key that has a passphrase, and none was given yet."""
    if path in PASSPHRASES or not path.is_file():
        return False
    try:
        asyncssh.read_private_key(path)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, OSError, ValueError) as error:
        return "passphrase" in str(error).lower()
    return False


def is_public(path: Path) -> bool:
    """Whether ``path`` holds the public half of a key, whose private half an agent may have."""
    try:
        asyncssh.read_public_key(path)
        return b"PRIVATE KEY" not in path.read_bytes()
    except (asyncssh.KeyImportError, OSError, ValueError):
        return False
