"""Whose host key is trusted, and how a key that is not is told to the operator."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import asyncssh

from ddtune.host.errors import Unreachable
from ddtune.host.target import Route


def load_known_hosts(files: Iterable[Path]) -> asyncssh.SSHKnownHosts:
    """All entries of ``files``. A missing file holds none; a line that cannot be parsed is left out."""
    known = asyncssh.SSHKnownHosts()
    for file in files:
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            try:
                known.load(line)
            except ValueError:
                continue
    return known


def refusal(route: Route, known: asyncssh.SSHKnownHosts, key: asyncssh.SSHKey | None, address: str) -> Unreachable:
    """Why ``key`` of the host is not trusted: it is unknown, or another one is known for that name."""
    name = route.host_key_alias or route.host
    port = route.port if route.port != 22 else None
    keys, authorities, revoked, *_ = known.match(name, address, port)
    shown = f"{key.get_algorithm()} {key.get_fingerprint()}" if key else "of a kind that is not known for it"
    files = route.known_hosts[0] if route.known_hosts else Path("~/.ssh/known_hosts")
    if key is not None and key in revoked:
        return Unreachable(
            "changed_host_key", f"{route.label} shows the host key {shown}, which {files} marks as revoked."
        )
    if keys or authorities:
        return Unreachable(
            "changed_host_key",
            f"the host key of {route.label} changed: it shows {shown}, {files} holds another one; someone may be in the"
            " way, so compare the key on the host before replacing the entry.",
        )
    at = f"-p {route.port} " if port else ""
    return Unreachable(
        "unknown_host_key",
        f"the host key of {route.label} is not known: it shows {shown}; compare it on the host, then add it to {files}"
        f" by logging in once with ssh {at}{route.host}.",
    )
