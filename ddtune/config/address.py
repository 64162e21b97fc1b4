"""How a host is written on the command line: ``[user@]host[:port][:service]``, IPv6 in brackets."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from ddtune.config.errors import ConfigError

_SYNTAX = re.compile(r"(?:(?P<user>[^@:\s]+)@)?(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+))(?P<rest>(?::[^:]*)*)")
_SAFE = re.compile(r"[A-Za-z0-9_.%:+-]+")
_UNIT = re.compile(r"[A-Za-z0-9_.@\\+-]+")
# No $ and no \: OpenSSH has expanded them in commands of its configuration (CVE-2026-106583).
_USER = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class Address:
    """One way to a host. ``host`` has no brackets; ``unit`` is a whole unit name such as ``sglang.service``."""

    host: str
    user: str | None = None
    port: int | None = None
    unit: str | None = None


def is_ip(host: str) -> bool:
    """Whether ``host`` is an IP address, with or without a zone."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def unit_name(service: str) -> str:
    """``sglang`` and ``sglang.service`` both name ``sglang.service``. Raises ConfigError for what is no unit name."""
    if not _UNIT.fullmatch(service) or service.startswith("-"):
        raise ConfigError(f"{service!r} is not the name of a systemd service")
    return service if service.endswith(".service") else f"{service}.service"


def user_name(user: str) -> str:
    """``user``, which names a login. Raises ConfigError where it could be read as an option or as shell text."""
    if not _USER.fullmatch(user) or user.startswith("-"):
        raise ConfigError(f"{user!r} cannot be a user's name")
    return user


def parse(text: str) -> Address:
    """Take ``text`` apart. Raises ConfigError with one sentence when it is no address."""
    if text.startswith("-"):
        raise ConfigError(f"{text!r} is not a host: a host's name does not begin with '-'")
    user, at, bare = text.partition("@") if "@" in text.partition(":")[0] else ("", "", text)
    if ":" in bare and is_ip(bare):
        return Address(_checked(bare, text), user=_user(user, text) if at else None)
    match = _SYNTAX.fullmatch(text)
    if not match:
        raise ConfigError(f"{text!r} is not a host; write NAME, user@host:port or [IPv6]:port, with :SERVICE behind it")
    host = match["v6"] or match["host"]
    if match["v6"] and not is_ip(host):
        raise ConfigError(f"{text!r} is not a host: {host!r} in brackets is not an IPv6 address")
    port, unit = _suffixes(match["rest"], text)
    return Address(_checked(host, text), _user(match["user"], text) if match["user"] else None, port, unit)


def _suffixes(rest: str, text: str) -> tuple[int | None, str | None]:
    parts = rest.split(":")[1:]
    port: int | None = None
    if parts and parts[0].isascii() and parts[0].isdigit():
        port = int(parts.pop(0))
        if not 0 < port < 65536:
            raise ConfigError(f"{text!r} is not a host: a port is a number from 1 to 65535")
    if len(parts) > 1 or parts == [""]:
        raise ConfigError(f"{text!r} is not a host; after its name come :port and :SERVICE and nothing else")
    return port, unit_name(parts[0]) if parts else None


def _checked(host: str, text: str) -> str:
    if not _SAFE.fullmatch(host) or host.startswith("-"):
        raise ConfigError(f"{text!r} is not a host: {host!r} cannot be a host's name")
    return host


def _user(user: str, text: str) -> str:
    try:
        return user_name(user)
    except ConfigError as error:
        raise ConfigError(f"{text!r} is not a host: {error}") from None
