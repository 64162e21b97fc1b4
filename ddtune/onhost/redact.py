"""Keys taken out of what leaves the host, and put back into what comes in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

PLACEHOLDER = "@API_KEY@"
HIDDEN = "@HIDDEN@"

# The engine's parser takes an unambiguous beginning of a flag for the flag.
_FLAGS = frozenset(
    flag[:length]
    for flag, shortest in (("--api-key", 7), ("--admin-api-key", 4))
    for length in range(shortest, len(flag) + 1)
)
_QUOTED = r"\"[^\"]*\"|'[^']*'"
_TEXT = (
    # The flag as systemd prints it, and the field as the engine prints its arguments.
    re.compile(rf"(--(?:admin-)?api-key[=\s]\s*)({_QUOTED}|\S+)"),
    re.compile(rf"(\b(?:admin_)?api_key['\"]?\s*[=:]\s*)({_QUOTED}|[^\s,)}}]+)"),
)
# ``TOKENS`` are counted and no secret.
_SECRET_NAME = re.compile(
    r"(?:TOKEN|SECRETS?|PASSW(?:OR)?DS?|CREDENTIALS?|(?:API|ACCESS|SECRET|PRIVATE)[-_]?KEYS?|(?:^|[-_])KEY[-_]ID)$",
    re.IGNORECASE,
)


class UnknownKeyError(Exception):
    """A placeholder stands where the service's own argv has no key."""


def redact_argv(argv: Sequence[str]) -> list[str]:
    """``argv`` with the values of ``--api-key`` and ``--admin-api-key`` replaced by the placeholder."""
    return _replaced(argv, lambda _flag, _value: PLACEHOLDER)


def expand_argv(argv: Sequence[str], base: Sequence[str]) -> list[str]:
    """``argv`` with each placeholder replaced by the value that the same flag has in ``base``.

    Raises ``UnknownKeyError`` when ``base`` has none, or when a placeholder stands anywhere else.
    """
    values: dict[str, str] = {}

    def remember(flag: str, value: str) -> str:
        values[_name(flag)] = value
        return value

    def expand(flag: str, value: str) -> str:
        if value != PLACEHOLDER:
            return value
        if _name(flag) not in values:
            raise UnknownKeyError(f"{flag} {PLACEHOLDER} cannot be filled in: the service was adopted without {flag}")
        return values[_name(flag)]

    _replaced(base, remember)
    expanded = _replaced(argv, expand)
    if any(PLACEHOLDER in word for word in expanded):
        raise UnknownKeyError(f"{PLACEHOLDER} may stand only as the value of --api-key or --admin-api-key")
    return expanded


def redact_text(text: str) -> str:
    """``text`` with the values of key flags replaced, for what systemd and the engine print of a command line."""
    for pattern in _TEXT:
        text = pattern.sub(lambda match: match.group(1) + PLACEHOLDER, text)
    return text


def redact_env(env: Mapping[str, str | None]) -> dict[str, str | None]:
    """``env`` with the values of names that speak of a secret hidden."""
    return {name: HIDDEN if value and is_secret(name) else value for name, value in env.items()}


def is_secret(name: str) -> bool:
    """Whether the name of a variable or a flag speaks of a secret."""
    return _SECRET_NAME.search(name) is not None


def key_values(argv: Sequence[str]) -> list[str]:
    """The values of the key flags in ``argv``."""
    found: list[str] = []

    def remember(_flag: str, value: str) -> str:
        found.append(value)
        return value

    _replaced(argv, remember)
    return found


def _name(flag: str) -> str:
    return "admin" if flag.startswith("--ad") else "api"


def _replaced(argv: Sequence[str], change: Callable[[str, str], str]) -> list[str]:
    words: list[str] = []
    pending: str | None = None
    for word in argv:
        flag, equals, value = word.partition("=")
        if pending is not None:
            words.append(change(pending, word))
            pending = None
        elif flag in _FLAGS:
            pending = None if equals else flag
            words.append(flag + equals + change(flag, value) if equals else word)
        else:
            words.append(word)
    return words
