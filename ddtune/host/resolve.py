"""Ask OpenSSH what its configuration says of a host (``ssh -G``) and turn that into explicit values."""

from __future__ import annotations

import asyncio
import getpass
import hashlib
import os
import re
import shutil
import socket
from collections import defaultdict
from pathlib import Path

from ddtune.host.errors import Unreachable
from ddtune.host.target import Route, Target

# Set to anything but these, the option would change who is trusted or how the login is done, and asyncssh would not
# honour it. Refusing is better than quietly trusting more than OpenSSH does.
_MUST_BE: dict[str, frozenset[str]] = {
    "revokedhostkeys": frozenset({"none"}),
    "knownhostscommand": frozenset({"none"}),
    "pkcs11provider": frozenset({"none"}),
    "hostbasedauthentication": frozenset({"no"}),
    "pubkeyauthentication": frozenset({"true", "yes", "unbound", "host-bound"}),
    "verifyhostkeydns": frozenset({"no", "false"}),
    "proxyusefdpass": frozenset({"no"}),
}

_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")


async def resolve(target: Target) -> Route:
    """The route to ``target``.

    Raises ``Unreachable`` with ``unsupported_option``, ``no_host_keys`` or ``bad_name`` and a sentence.
    """
    if target.complete:
        return _own(target)
    ssh = shutil.which("ssh")
    if ssh is None:
        return _own(target)
    argv = [ssh, "-G"]
    argv += ["-p", str(target.port)] if target.port else []
    argv += ["-l", target.user] if target.user else []
    process = await asyncio.create_subprocess_exec(
        *argv,
        "--",
        target.host,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    if process.returncode:
        said = err.decode(errors="replace").strip().splitlines()
        raise Unreachable(
            "bad_name", f"ssh cannot read its configuration for {target.label}: {said[-1] if said else ''}"
        )
    return route_of(target, out.decode(errors="replace"))


def route_of(target: Target, ssh_g: str) -> Route:
    """The route that the answer of ``ssh -G`` describes. Pure but for the home folder and environment it expands."""
    options: dict[str, list[str]] = defaultdict(list)
    for line in ssh_g.splitlines():
        key, _, value = line.partition(" ")
        options[key.lower()].append(value.strip())
    for key, allowed in _MUST_BE.items():
        refused = [value for value in options.get(key, []) if value.lower() not in allowed]
        if refused:
            raise Unreachable(
                "unsupported_option",
                f"ssh's configuration sets {key} to {refused[0]} for {target.label}, which ddtune cannot honour yet;"
                " remove it for this host.",
            )

    def one(key: str) -> str | None:
        value = options[key][0] if options.get(key) else ""
        return None if value.lower() in ("", "none") else value

    host = one("hostname") or target.host
    port = int(one("port") or 22)
    user = one("user") or getpass.getuser()
    jumps = one("proxyjump")
    names = _Names(host=host, alias=target.host, port=port, user=user, jumps=jumps or "")
    known = [word for key in ("userknownhostsfile", "globalknownhostsfile") for v in options[key] for word in v.split()]
    if any(word.lower() == "none" for word in known[:1]):
        raise Unreachable(
            "no_host_keys",
            f"ssh's configuration turns host key checking off for {target.label} (UserKnownHostsFile none);"
            " ddtune always checks: give that host a known_hosts file.",
        )
    agent = one("identityagent") if options.get("identityagent") else "SSH_AUTH_SOCK"
    return Route(
        host=host,
        port=port,
        user=user,
        known_hosts=tuple(names.path(word) for word in known if word.lower() != "none"),
        identities=tuple(names.path(word) for word in options["identityfile"] if word.lower() != "none"),
        certificates=tuple(names.path(word) for word in options["certificatefile"] if word.lower() != "none"),
        identities_only=one("identitiesonly") in ("yes", "true"),
        agent=_agent(agent, names),
        host_key_alias=one("hostkeyalias"),
        connect_timeout_s=_seconds(one("connecttimeout"), target.connect_timeout_s),
        login_timeout_s=target.login_timeout_s,
        jumps=tuple(jumps.split(",")) if jumps else (),
        proxy_command=names.expand(command) if (command := one("proxycommand")) else None,
        label=target.label,
    )


def _own(target: Target) -> Route:
    home = Path.home() / ".ssh"
    return Route(
        host=target.host,
        port=target.port or 22,
        user=target.user or getpass.getuser(),
        known_hosts=(target.known_hosts,) if target.known_hosts else (home / "known_hosts",),
        identities=(target.identity,) if target.identity else tuple(home / key for key in _DEFAULT_KEYS),
        identities_only=target.identity is not None,
        agent=None if target.identity else os.environ.get("SSH_AUTH_SOCK"),
        connect_timeout_s=target.connect_timeout_s,
        login_timeout_s=target.login_timeout_s,
        label=target.label,
    )


def _agent(value: str | None, names: _Names) -> str | None:
    if value is None or value == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK") if value else None
    if value.startswith("$"):
        return os.environ.get(value.strip("${}"))
    return str(names.path(value))


def _seconds(value: str | None, default: float) -> float:
    return float(value) if value and value.isdigit() and int(value) > 0 else default


class _Names:
    """The %-tokens of file names and ProxyCommand, most of which ``ssh -G`` prints as written."""

    def __init__(self, host: str, alias: str, port: int, user: str, jumps: str) -> None:
        local, short = socket.gethostname(), socket.gethostname().split(".")[0]
        connection = f"{local}{host}{port}{user}{jumps}"
        self._tokens = {
            "%": "%",
            "h": host,
            "n": alias,
            "k": alias,
            "p": str(port),
            "r": user,
            "u": getpass.getuser(),
            "d": str(Path.home()),
            "l": local,
            "L": short,
            "i": str(os.getuid()),
            "j": jumps,
            # OpenSSH names a connection by the SHA-1 of its parts; it protects nothing.
            "C": hashlib.sha1(connection.encode(), usedforsecurity=False).hexdigest(),
        }

    def expand(self, text: str) -> str:
        return re.sub(r"%(.)", lambda match: self._tokens.get(match.group(1), match.group(0)), text)

    def path(self, text: str) -> Path:
        text = self.expand(text.strip('"'))
        text = re.sub(r"\$\{(\w+)\}", lambda match: os.environ.get(match.group(1), ""), text)
        return Path(text).expanduser()
