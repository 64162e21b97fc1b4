"""Keys taken out of what leaves the host, and put back into what comes in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

PLACEHOLDER = "@API_KEY@"
HIDDEN = "@HIDDEN@"
SHORTEST = 6
"""Characters of a key that can be looked for by its value: a shorter one would be found in ordinary words."""

# The engine's parser takes an unambiguous beginning of a flag for the flag.
_FLAGS = frozenset(
    flag[:length]
    for flag, shortest in (("--api-key", 7), ("--admin-api-key", 4))
    for length in range(shortest, len(flag) + 1)
)
_QUOTED = r"\"[^\"]*\"|'[^']*'"
_FLAG = "|".join(sorted(map(re.escape, _FLAGS), key=len, reverse=True))
_TEXT = (
    # The flag as systemd prints it, and as a word of a list that was printed.
    re.compile(rf"((?:{_FLAG})(?:=|\s+(?!-)|\\*['\"]\s*,\s*))({_QUOTED}|\S+)"),
    # The field as the engine prints its arguments, a header, and a variable.
    re.compile(
        r"((?:(?i:api[_-]?key)|[A-Z0-9]_(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|ACCESS_KEY))\\*['\"]?\s*[=:]\s*)"
        rf"(?!None\b|null\b)({_QUOTED}|[^\s,)}}]+)"
    ),
    re.compile(r"(?i)(\bbearer\s+)([^\s'\",)}]+)"),
)
_IDS = re.compile(
    r"\b((?:[a-z]+_){0,2}ids\\*['\"]?\s*[=:]\s*)\[[\d\s,\[\]…]*"
    # The rest of such a line, which journald cuts into several.
    r"|(?:\d+,\s?){48,}\d*"
)
# What is quoted behind such a name may hold any sign, so that nobody can say where it ends but the end of the line.
_WORDS = re.compile(
    r"\b((?:[a-z]+_){0,2}(?:text|prompt|content|messages|arguments|(?:image|video|audio)_(?:data|url))\\*['\"]?\s*[=:]\s*)"
    r"\\*['\"\[{].*",
    re.DOTALL,
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
    """``text`` with the values of key flags and fields replaced, for what systemd and the engine print of them."""
    for pattern, sign in zip(_TEXT, (PLACEHOLDER, PLACEHOLDER, HIDDEN)):
        text = pattern.sub(partial(_out, sign), text)
    return text


def _out(sign: str, match: re.Match[str]) -> str:
    """Nothing is taken out twice."""
    value = match.group(2)
    return match.group(0) if PLACEHOLDER in value or HIDDEN in value else match.group(1) + sign


def without_words(text: str) -> str:
    """``text`` without what engines print of requests and answers, which are users' own: tokens, prompts, messages."""
    text = _IDS.sub(lambda match: f"{match[1]}[…]" if match[1] else "…", text)
    return _WORDS.sub(lambda match: f"{match[1]}…", text)


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
