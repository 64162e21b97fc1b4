"""Checks of a request's fields: what is not exactly as expected is refused before anything is done."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

MAX_DEPTH = 24
"""Levels of lists and objects that a request may nest."""

MAX_TEXT = 64 * 1024
"""Characters of one string at most."""

Check = Callable[[Any], Any]
Fields = Mapping[str, Check]

# None that systemctl would read as an option.
_UNIT = re.compile(r"(?![-.])[A-Za-z0-9:_.@\\-]{1,240}\.service")
_OP = re.compile(r"[0-9]{4,32}-[a-z0-9-]{1,40}")
_SHA = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9_.:@+-]{1,120}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,120}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class BadRequestError(Exception):
    """A request that is not as expected; the text says which field and why."""


class Missing:
    """What stands for a field that was not sent."""


MISSING = Missing()


def parse(raw: bytes) -> dict[str, Any]:
    """The JSON object in ``raw``; raises ``BadRequestError`` for anything else or anything nested too deep."""
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_no_constant, parse_int=_short_int)
    except RecursionError:
        raise BadRequestError("the request is nested too deep") from None
    except ValueError:
        raise BadRequestError("the request is not JSON") from None
    if not isinstance(value, dict):
        raise BadRequestError("the request is not a JSON object")
    _check_depth(value)
    return value


def fields(request: Mapping[str, Any], checks: Fields) -> dict[str, Any]:
    """The checked fields of ``request``; those not sent get what their check makes of ``MISSING``."""
    unknown = sorted(set(request) - set(checks) - {"proto", "verb", "unit"})
    if unknown:
        raise BadRequestError(f"{request.get('verb')} knows no field {unknown[0]!r}"[:200])
    return {name: _checked(name, check, request.get(name, MISSING)) for name, check in checks.items()}


def _checked(name: str, check: Check, value: Any) -> Any:
    try:
        return check(value)
    except BadRequestError as error:
        raise BadRequestError(f"field {name!r} {error}") from None


def maybe(check: Check, default: Any = None) -> Check:
    """``check`` for a field that may be null or left out, which is ``default``."""
    return lambda value: default if value is MISSING or value is None else check(value)


def pattern(regex: re.Pattern[str], what: str) -> Check:
    """A string that ``regex`` matches from its first to its last character."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or not regex.fullmatch(value):
            raise BadRequestError(f"is not {what}")
        return value

    return check


unit = pattern(_UNIT, "the name of a service unit")
op = pattern(_OP, "an operation's id")
sha = pattern(_SHA, "a release's sha256")
name = pattern(_NAME, "a short name of letters, digits and . _ : @ + -")
env_name = pattern(_ENV_NAME, "the name of an environment variable")


def one_of(*choices: str) -> Check:
    """One of ``choices``."""

    def check(value: Any) -> str:
        if value not in choices:
            raise BadRequestError(f"is not one of {', '.join(choices)}")
        return str(value)

    return check


def text(limit: int = 4000) -> Check:
    """A string of at most ``limit`` characters without control characters; tabs and line ends are allowed."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or len(value) > limit or _CONTROL.search(value):
            raise BadRequestError(f"is not a text of at most {limit} characters without control characters")
        return value

    return check


def cleaned(limit: int = 4000) -> Check:
    """Any string, cut to ``limit`` characters and with ``?`` for control characters: a log line is never refused."""

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise BadRequestError("is not a string")
        return _CONTROL.sub("?", value[:limit])

    return check


def word(limit: int = MAX_TEXT) -> Check:
    """A string that can be an argument or an environment value: any characters but NUL and lone surrogates."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or len(value) > limit or "\0" in value or not _encodable(value):
            raise BadRequestError(f"is not a string of at most {limit} characters without NUL")
        return value

    return check


def path(value: Any) -> str:
    """An absolute path without control characters and without ``..``."""
    checked: str = text(4096)(value)
    if not checked.startswith("/") or ".." in checked.split("/") or "\n" in checked:
        raise BadRequestError("is not an absolute path")
    return checked


def number(low: float, high: float) -> Check:
    """A finite number from ``low`` to ``high``."""

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise BadRequestError(f"is not a number from {low:g} to {high:g}")
        return float(value)

    return check


def integer(low: int, high: int) -> Check:
    """A whole number from ``low`` to ``high``."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise BadRequestError(f"is not a whole number from {low} to {high}")
        return value

    return check


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise BadRequestError("is not true or false")
    return value


def many(check: Check, limit: int) -> Check:
    """A list of at most ``limit`` values, each as ``check`` wants it."""

    def check_all(value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) > limit:
            raise BadRequestError(f"is not a list of at most {limit}")
        return [check(item) for item in value]

    return check_all


def mapping(keys: Check, values: Check, limit: int) -> Check:
    """An object of at most ``limit`` entries."""

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) > limit:
            raise BadRequestError(f"is not an object of at most {limit} entries")
        return {keys(key): values(item) for key, item in value.items()}

    return check


def record(checks: Fields) -> Check:
    """An object with exactly the fields of ``checks``, those with ``maybe`` optional."""

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or set(value) - set(checks):
            raise BadRequestError(f"is not an object with the fields {', '.join(checks)}")
        return {name: _checked(name, inner, value.get(name, MISSING)) for name, inner in checks.items()}

    return check


def document(limit: int = 256 * 1024) -> Check:
    """Any JSON object whose text is at most ``limit`` characters: data that is kept and never acted on."""

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise BadRequestError("is not an object")
        text = json.dumps(value, ensure_ascii=False)
        if len(text) > limit or not _encodable(text):
            raise BadRequestError(f"is not an object of at most {limit} characters")
        return value

    return check


def regex(value: Any) -> str:
    """A regular expression that compiles and does not repeat a repeat."""
    # Imported here, since it is needed to arm alone.
    from .slow_regex import nested

    checked: str = text(4000)(value)
    try:
        re.compile(checked)
        slow = nested(checked)
    except (re.error, RecursionError, OverflowError):
        raise BadRequestError("is not a regular expression") from None
    if slow:
        raise BadRequestError("is a regular expression that repeats without end what can be read in several ways")
    return checked


OWNER = record(
    {
        "who": text(200),
        "host": maybe(text(200)),
        "pid": maybe(integer(0, 2**32)),
        "version": maybe(text(100)),
    }
)
"""Who asks, as other operators will be told."""


def _encodable(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _no_constant(constant: str) -> Any:
    raise ValueError(constant)


def _short_int(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(digits[:20])
    return int(digits)


def _check_depth(value: Any, level: int = 0) -> None:
    if level > MAX_DEPTH:
        raise BadRequestError("the request is nested too deep")
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        if isinstance(value, float) and not math.isfinite(value):
            raise BadRequestError("the request holds a number that is too large")
        return
    for item in value:
        _check_depth(item, level + 1)
