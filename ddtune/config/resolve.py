"""From the name that a user typed to the host that is meant."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Collection
from dataclasses import replace

from ddtune.config import openssh
from ddtune.config.address import Address, is_ip, parse
from ddtune.config.errors import ConfigError
from ddtune.config.load import load_config
from ddtune.config.model import HostConfig
from ddtune.config.names import did_you_mean
from ddtune.config.paths import runtime_dir

_DEMO = re.compile(r"demo-[A-Za-z0-9_-]+")
_OFFERED = 10


def resolve_host(name: str) -> HostConfig:
    """The host called ``name``, optionally ``name:SERVICE``.

    In this order: a host of ddtune's configuration; a running embedded host (``demo-…``); an alias of OpenSSH's
    configuration; and what is plainly an address: with a user, a port or a dot, an IP, or a name that this machine can
    resolve. Raises ConfigError, with near names, when it is none of these.
    """
    configured = load_config()
    address = parse(name)
    plain = address.user is None and address.port is None
    if plain and address.host in configured:
        host = configured[address.host]
    elif plain and _DEMO.fullmatch(address.host):
        host = _demo(address.host)
    else:
        aliases = openssh.aliases()
        if not _is_address(address) and address.host not in aliases and not _found(address.host):
            raise ConfigError(_unknown(address.host, configured, aliases))
        shown = name.removesuffix(f":{_service(name, address)}")
        host = HostConfig(name=shown, ssh=address.host, user=address.user, port=address.port)
    return replace(host, unit=address.unit) if address.unit else host


def _service(name: str, address: Address) -> str:
    return name.rpartition(":")[2] if address.unit else ""


def _is_address(address: Address) -> bool:
    named = address.user is not None or address.port is not None
    return named or "." in address.host or address.host == "localhost" or is_ip(address.host)


def _found(host: str) -> bool:
    if openssh.renames(host):
        return True
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return True


def _unknown(name: str, configured: Collection[str], aliases: Collection[str]) -> str:
    near = did_you_mean(name, {*configured, *aliases})
    offers = [] if near else [_offer("ddtune's configuration", configured), _offer("~/.ssh/config", aliases)]
    offered = " and ".join(filter(None, offers))
    return (
        f"no host is called {name!r}{near}: it is neither in ddtune's configuration nor in ~/.ssh/config, and this "
        f"machine cannot resolve it; {f'{offered}; or' if offered else 'name a configured host or'} write "
        "user@host:port, or try `demo`"
    )


def _offer(place: str, names: Collection[str]) -> str:
    if not names:
        return ""
    shown = sorted(names)[:_OFFERED]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{place} has {', '.join(shown)}{more}"


def demo_hosts() -> list[str]:
    """The embedded hosts that have a descriptor, running or not."""
    return sorted(path.stem for path in (runtime_dir() / "demo").glob("demo-*.json"))


def _demo(name: str) -> HostConfig:
    path = runtime_dir() / "demo" / f"{name}.json"
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        near = did_you_mean(name, demo_hosts())
        raise ConfigError(f"no embedded host is called {name!r}{near}; start one with: ddtune demo --serve") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the embedded host's descriptor {path}: {error}") from error

    from pydantic import ValidationError

    from ddtune.config.schema import DemoFile, problems

    try:
        file = DemoFile.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"cannot use {path}: {problems(error, DemoFile)}") from None
    if file.pid is not None and not _alive(file.pid):
        raise ConfigError(f"the embedded host {name!r} has ended; start another with: ddtune demo --serve")
    return file.config(name)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
