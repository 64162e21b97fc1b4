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
from collections.abc import Mapping
from pathlib import Path

from ddtune.host.errors import Unreachable
from ddtune.host.processes import end
from ddtune.host.target import Route, Target

# What asyncssh does as OpenSSH would, each tried in tests, and what changes neither who is trusted nor how the way
# goes. Any other option that is not at its default goes over the system's own ssh.
_HONOURED_WORDS = """
    certificatefile connecttimeout globalknownhostsfile host hostkeyalias hostname identitiesonly identityagent
    identityfile port proxycommand proxyjump user userknownhostsfile
"""
_HONOURED = frozenset(_HONOURED_WORDS.split())
_WITHOUT_EFFECT_WORDS = """
    addkeystoagent batchmode canonicaldomains canonicalizefallbacklocal canonicalizehostname canonicalizemaxdots
    canonicalizepermittedcnames clearallforwardings compression connectionattempts controlmaster controlpath
    controlpersist dynamicforward enableescapecommandline escapechar exitonforwardfailure fingerprinthash
    forkafterauthentication forwardagent forwardx11 forwardx11timeout forwardx11trusted gatewayports
    gssapiauthentication gssapidelegatecredentials gssapikeyexchange gssapikexalgorithms gssapirenewalforcesrekey
    gssapitrustdns hashknownhosts ignoreunknown ipqos kbdinteractiveauthentication localcommand localforward loglevel
    logverbose nohostauthenticationforlocalhost numberofpasswordprompts obscurekeystroketiming passwordauthentication
    permitlocalcommand permitremoteopen rekeylimit remotecommand remoteforward requesttty sendenv serveralivecountmax
    serveraliveinterval sessiontype stdinnull streamlocalbindmask streamlocalbindunlink stricthostkeychecking
    syslogfacility tag tcpkeepalive tunnel tunneldevice updatehostkeys visualhostkey warnweakcrypto xauthlocation
"""
_WITHOUT_EFFECT = frozenset(_WITHOUT_EFFECT_WORDS.split())

_DEFAULTS: dict[str, str] = {}
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")


async def resolve(target: Target) -> Route:
    """The route to ``target``.

    Raises ``Unreachable`` with ``no_host_keys`` or ``bad_name`` and a sentence.
    """
    if target.complete:
        return _own(target)
    ssh = shutil.which("ssh")
    if ssh is None:
        return _own(target)
    asked = [*(["-p", str(target.port)] if target.port else []), *(["-l", target.user] if target.user else [])]
    said = await _ssh_g(target, ssh, *asked, "--", target.host)
    if ssh not in _DEFAULTS:
        _DEFAULTS[ssh] = await _ssh_g(target, ssh, "-F", "none", "--", "localhost")
    return route_of(target, said, _DEFAULTS[ssh])


async def _ssh_g(target: Target, ssh: str, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        ssh,
        "-G",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await process.communicate()
    finally:
        await end(process)
    if process.returncode:
        said = err.decode(errors="replace").strip().splitlines()
        # The last line only counts the ones that name file, line and option.
        why = [line for line in said if re.search(r"\bline \d+: ", line)] or said[-1:]
        raise Unreachable("bad_name", f"ssh cannot read its configuration for {target.label}: {'; '.join(why[:3])}")
    return out.decode(errors="replace")


def route_of(target: Target, ssh_g: str, defaults: str = "") -> Route:
    """The route that the answer of ``ssh -G`` describes; ``defaults`` is its answer without any configuration.

    Pure but for the home folder and environment that it expands.
    """
    options = _options(ssh_g)

    def one(key: str) -> str | None:
        value = options[key][0] if options.get(key) else ""
        return None if value.lower() in ("", "none") else value

    host = one("hostname") or target.host
    port = int(one("port") or 22)
    user = one("user") or getpass.getuser()
    jumps = one("proxyjump")
    alias = one("hostkeyalias")
    names = _Names(host=host, alias=target.host, key_alias=alias, port=port, user=user, jumps=jumps or "")
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
        host_key_alias=alias,
        connect_timeout_s=_seconds(one("connecttimeout"), target.connect_timeout_s),
        login_timeout_s=target.login_timeout_s,
        jumps=tuple(jumps.split(",")) if jumps else (),
        proxy_command=names.expand(command) if (command := one("proxycommand")) else None,
        alias=target.host,
        system=(*beyond(options, _options(defaults)), *_spaced(known)),
        label=target.label,
    )


def _spaced(known: list[str]) -> tuple[str, ...]:
    """``ssh -G`` prints no quotes, so that only ssh itself knows which words are one path with a space in it."""
    return ("userknownhostsfile",) if any(word[0] not in "/~$%" and word.lower() != "none" for word in known) else ()


def _options(ssh_g: str) -> dict[str, list[str]]:
    options: dict[str, list[str]] = defaultdict(list)
    for line in ssh_g.splitlines():
        key, _, value = line.partition(" ")
        options[key.lower()].append(value.strip())
    return options


def beyond(options: Mapping[str, list[str]], defaults: Mapping[str, list[str]]) -> tuple[str, ...]:
    """The options that are not at OpenSSH's own default and that asyncssh would not honour."""
    known = _HONOURED | _WITHOUT_EFFECT
    off = ("", "none")
    return tuple(
        key
        for key, values in sorted(options.items())
        if key not in known and values != defaults.get(key) and (key in defaults or values[0].lower() not in off)
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
    if value.startswith("$") and not value.startswith("${"):
        return os.environ.get(value[1:])
    return str(names.path(value))


def _seconds(value: str | None, default: float) -> float:
    return float(value) if value and value.isdigit() and int(value) > 0 else default


class _Names:
    """The %-tokens of file names and ProxyCommand, most of which ``ssh -G`` prints as written."""

    def __init__(self, host: str, alias: str, key_alias: str | None, port: int, user: str, jumps: str) -> None:
        local, short = socket.gethostname(), socket.gethostname().split(".")[0]
        connection = f"{local}{host}{port}{user}{jumps}"
        self._tokens = {
            "%": "%",
            "h": host,
            "n": alias,
            "k": key_alias or alias,
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
