"""Where a host is: what the operator wrote, and what OpenSSH's configuration makes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from ddtune.host.errors import Unreachable

_WORD = re.compile(r"(?!-)[A-Za-z0-9._-]+\Z")
_ADDRESS = re.compile(r"(?!-)[A-Za-z0-9._:%+-]+\Z")


@dataclass(frozen=True)
class Target:
    """A host as the operator names it.

    ``host`` is an alias of OpenSSH's configuration or an address. A target with a port, identity or known_hosts of its
    own is complete and is not looked up in OpenSSH's configuration. ``name`` is what messages call it.
    """

    host: str
    port: int | None = None
    user: str | None = None
    identity: Path | None = None
    known_hosts: Path | None = None
    name: str = ""
    connect_timeout_s: float = 10.0
    login_timeout_s: float = 30.0

    @property
    def label(self) -> str:
        return self.name or self.host

    @property
    def complete(self) -> bool:
        return self.identity is not None or self.known_hosts is not None

    @classmethod
    def parse(
        cls,
        ssh: str,
        *,
        port: int | None = None,
        user: str | None = None,
        identity: Path | None = None,
        known_hosts: Path | None = None,
        name: str = "",
    ) -> Target:
        """Split ``[user@]host[:port]`` or ``[user@][v6-address]:port``; the keywords win over what is in ``ssh``.

        Raises ``Unreachable('bad_name')`` where a part could be read as an option or as shell text.
        """
        left, at, rest = ssh.rpartition("@")
        if at:
            user = user or left
        bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?", rest)
        plain = re.fullmatch(r"([^:]+):(\d+)", rest)
        match = bracketed or plain
        host = match.group(1) if match else rest
        if match and match.group(2):
            port = port or int(match.group(2))
        if not _ADDRESS.match(host) or (user is not None and not _WORD.match(user)):
            raise Unreachable("bad_name", f"{ssh!r} is not a host: write an alias or user@host:port.")
        if port is not None and not 0 < port < 65536:
            raise Unreachable("bad_name", f"{ssh!r} has no port that can exist: {port}.")
        return cls(host, port, user, identity, known_hosts, name or ssh)


@dataclass(frozen=True)
class Route:
    """A resolved way to a host: explicit values only, nothing left for a configuration file to add.

    ``system`` names options of OpenSSH's configuration that only its own client honours, as ``alias`` is known to it.
    """

    host: str
    port: int
    user: str
    known_hosts: tuple[Path, ...]
    identities: tuple[Path, ...]
    certificates: tuple[Path, ...] = ()
    identities_only: bool = False
    agent: str | None = None
    host_key_alias: str | None = None
    connect_timeout_s: float = 10.0
    login_timeout_s: float = 30.0
    jumps: tuple[str, ...] = ()
    proxy_command: str | None = None
    alias: str = ""
    system: tuple[str, ...] = ()
    label: str = field(default="", compare=False)
