"""Whose host key is trusted, and how a key that is not is told to the operator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import asyncssh

from ddtune.host.errors import Unreachable
from ddtune.host.target import Route

_Keys = Sequence[asyncssh.SSHKey]
_Others = Sequence[Any]
_Found = tuple[_Keys, _Keys, _Keys, _Others, _Others, _Others, _Others]


class KnownHosts(asyncssh.SSHKnownHosts):
    """Entries of known_hosts, matched as OpenSSH does: by the name alone, whatever its case.

    asyncssh also trusts by the address that a name leads to, so that whoever answers for the name could show the key of
    another known machine, and it forgets a key that is revoked on its port where one is known without a port.
    """

    def __init__(self) -> None:
        super().__init__()
        self._revoked = asyncssh.SSHKnownHosts()

    def take(self, line: str) -> None:
        """Add one line of a file; one that cannot be parsed is left out."""
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if not words or words[0].startswith("#"):
            return
        names = words[0] if words[0].startswith("|") else words[0].lower()
        with contextlib.suppress(ValueError):
            entry = " ".join([names, *words[1:]])
            if marker == "@revoked":
                self._revoked.load(entry)
            else:
                self.load(f"{marker} {entry}")

    def match(self, host: str, addr: str, port: int | None) -> _Found:
        """As asyncssh asks for it; revoked is what is so for the name or the address, with or without the port."""
        keys, authorities, _, certificates, gone, names, no_names = super().match(host.lower(), "", port)
        looks = (self._revoked.match(host.lower(), addr, one)[0] for one in {port, None})
        return (keys, authorities, [key for found in looks for key in found], certificates, gone, names, no_names)


def load_known_hosts(files: Iterable[Path]) -> KnownHosts:
    """All entries of ``files``. A missing file holds none; a line that cannot be parsed is left out."""
    known = KnownHosts()
    for file in files:
        with contextlib.suppress(OSError):
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                known.take(line)
    return known


def refusal(route: Route, known: KnownHosts, key: asyncssh.SSHKey | None, address: str, said: str = "") -> Unreachable:
    """Why ``key`` of the host is not trusted, of which asyncssh ``said`` something: it is unknown, revoked, of a
    certificate that is not valid, or another one is known for that name.
    """
    name = route.host_key_alias or route.host
    port = route.port if route.port != 22 else None
    keys, authorities, *_ = known.match(name, address, port)
    shown = f"{key.get_algorithm()} {key.get_fingerprint()}" if key else "one of a kind that is not known for it"
    files = ", ".join(map(str, route.known_hosts)) or "~/.ssh/known_hosts"
    said = said.partition(" for host ")[0]
    if "revoked" in said:
        return Unreachable("changed_host_key", f"{route.label} shows a host key that is marked as revoked in {files}.")
    if "ertificate" in said:
        return Unreachable(
            "unknown_host_key",
            f"the certificate of the host key of {route.label} is not valid for {name} now: {said}; have it signed,"
            " or compare the key on the host.",
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
