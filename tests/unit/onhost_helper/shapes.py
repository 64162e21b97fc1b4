"""Requests made from the helper's own schema: valid in their shape, hostile in what they hold.

Each check of ``schema.py`` is a function that a factory has made; what the factory was given is read back from it. A
factory that is not known here fails the tests, so that none can be forgotten.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from ddtune.onhost import helper, schema

# What only the host under test knows; ``placed`` puts it in.
UNIT, OTHER_UNIT, OP, STABLE, CANDIDATE, ARGV, CWD, INVOCATION = (
    f"<{name}>" for name in ("unit", "other unit", "op", "stable", "candidate", "argv", "cwd", "invocation")
)
LEFT_OUT = object()

HOSTILE = (
    "../../etc/shadow",
    "/etc/shadow",
    "/../../../etc/passwd",
    "..",
    "a\nb\n[Service]\nExecStart=/bin/false",
    "a\rb",
    "%h %n %i %% %s",
    "$(touch pwned)",
    "${IFS}id$0$$",
    "`touch pwned`",
    "; touch pwned #",
    "| tee pwned",
    "--no-pager",
    "-oProxyCommand=touch pwned",
    "--root=/",
    "a'b\"c\\d",
    "\"}]}\n{\"ok\": true}",
    "a\0b",
    "\x1b]52;c;aGk=\x07\x1b[2J",
    "\x9b31m\x85",
    "\u202egnp.exe",
    "\u2028\u2029\ufeff",
    "\ud800",
    "\udcff\udc80",
    "é\U0001f4a3",
    "[red]markup[/red]",
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "@API_KEY@",
    "@HIDDEN@",
    "--api-key",
    "None",
    "NaN",
    "x" * 4097,
    "y" * 70_000,
    "",
    " ",
    ".",
    "-",
)  # fmt: skip
PATHS = (
    *("/", "//", "/etc/shadow", "/proc/self/environ", "/proc/kmsg", "/dev/zero", "/dev/stdin", "/proc/self/fd/0"),
    *("/a b", "/%h/$HOME/`id`", "/etc/sglang/\u202e", "/" + "d/" * 1500, "/nowhere", "/-rf", "/etc/../etc/shadow"),
)
NAMES = ("--force", "-Zz", "..", ".", "adopted", "a@b:c", "unknown", "hang", "x" * 120, "%h", "b8-nvls")
VARIABLES = ("LD_PRELOAD", "PYTHONPATH", "PATH", "HF_TOKEN", "INVOCATION_ID", "NOTIFY_SOCKET", "SGLANG_DDTREE_MAX_TOPK")
REGEXES = ("CUDA error", ".*", "(?i)x", "(?s).*\\Z", "a{1000}{1000}", "(a+)+$", "(?P<a>x)(?P=a)", "[", "\\b\\B", "")
OPS = (*(OP,) * 4, "20261129190000-other", "0000-x", f"{'9' * 32}-zz", "20261129185959-abd")
SHAS = (*(STABLE, CANDIDATE) * 2, "0" * 64, "f" * 64)
NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**63), 10**19, 0.1, -0.0, 5e-324, 1.7e308, 1e15, True)
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=30))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)
SPOILT = st.one_of(VALUES, st.sampled_from((math.nan, math.inf, 1e999, [], {}, [[[[[]]]]])))
# What a host has of its own: another value of these is seldom let through.
PINNED = ("api_port", "api_key_file", "invocation")
# Words that programs look for in documents of others.
FIELDS = ("op", "at", "created", "profile", "axes", "key", "event", "build", "api_port", "stop_timeout_s", "user")


def verb_fields(verb: str) -> schema.Fields:
    """The checks of ``verb``'s fields."""
    module, fields, _ = helper.VERBS[verb]
    return dict(getattr(importlib.import_module(f"ddtune.onhost.{module}"), fields))


@functools.cache
def requests(verb: str) -> st.SearchStrategy[dict[str, Any]]:
    """Requests of ``verb``: most are as the schema wants them, some have one thing in them that is not."""
    units = st.sampled_from((*(UNIT,) * 12, OTHER_UNIT, "no-such.service", "a\\x2db@c:d.service"))
    unit = st.none() if verb in helper.WITHOUT_UNIT else units
    return st.builds(_request, st.just(verb), unit, _object(verb_fields(verb)), st.integers(0, 7), _spoils())


def _request(verb: str, unit: str | None, fields: dict[str, Any], die: int, spoil: Any) -> dict[str, Any]:
    request = {"proto": 1, "verb": verb, "unit": unit, **fields}
    return spoil(request) if die == 7 else request


def _spoils() -> st.SearchStrategy[Callable[[dict[str, Any]], dict[str, Any]]]:
    def spoil(at: int, value: Any, new: str | None) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def change(request: dict[str, Any]) -> dict[str, Any]:
            names = [new] if new is not None else [name for name in request if name != "verb"]
            return {**request, names[at % len(names)]: value}

        return change

    return st.builds(spoil, st.integers(0, 30), SPOILT, st.one_of(st.none(), TEXTS))


def _object(checks: Mapping[str, schema.Check]) -> st.SearchStrategy[dict[str, Any]]:
    made = st.fixed_dictionaries({name: _shaped(check, name) for name, check in checks.items()})
    return made.map(lambda found: {name: value for name, value in found.items() if value is not LEFT_OUT})


def _shaped(check: schema.Check, name: str) -> st.SearchStrategy[Any]:
    """Values that ``check`` takes, for the field ``name``."""
    kind = str(check.__qualname__).partition(".")[0]
    if kind not in _MAKERS:
        raise AssertionError(f"no requests can be made for the check {check.__qualname__} of {name!r}")
    return _MAKERS[kind](check, inspect.getclosurevars(check).nonlocals, name)


def _maybe(check: schema.Check, held: Mapping[str, Any], name: str) -> st.SearchStrategy[Any]:
    inner = _shaped(held["check"], name)
    if name in PINNED:
        return st.one_of(st.just(LEFT_OUT), st.none(), inner)
    return st.integers(0, 7).flatmap(lambda die: inner if die > 1 else st.sampled_from((LEFT_OUT, None)))


def _taken(check: schema.Check, values: tuple[Any, ...]) -> list[Any]:
    found = []
    for value in values:
        try:
            check(value)
        except schema.BadRequestError:
            continue
        found.append(value)
    return found


def _pattern(check: schema.Check, held: Mapping[str, Any], name: str) -> st.SearchStrategy[Any]:
    if check in (schema.op, schema.sha):
        return st.sampled_from(OPS if check is schema.op else SHAS)
    known = _taken(check, (*NAMES, *VARIABLES, *HOSTILE))
    own = (INVOCATION,) * 3 if name == "invocation" else ()
    return st.one_of(st.sampled_from([*known, *own]), st.from_regex(held["regex"], fullmatch=True))


def _text(check: schema.Check, _held: Mapping[str, Any], _name: str) -> st.SearchStrategy[Any]:
    return st.sampled_from(_taken(check, HOSTILE + NAMES)) | st.text(max_size=30).filter(
        lambda t: bool(_taken(check, (t,)))
    )


def _path(check: schema.Check, _held: Mapping[str, Any], name: str) -> st.SearchStrategy[Any]:
    return st.sampled_from([*_taken(check, PATHS + HOSTILE), *((CWD,) * 40 if name == "cwd" else ())])


def _number(check: schema.Check, held: Mapping[str, Any], _name: str) -> st.SearchStrategy[Any]:
    low, high = held["low"], held["high"]
    return st.sampled_from(_taken(check, (low, high, *NUMBERS))) | st.floats(low, high)


def _integer(check: schema.Check, held: Mapping[str, Any], _name: str) -> st.SearchStrategy[Any]:
    low, high = held["low"], held["high"]
    return st.sampled_from(_taken(check, (low, high, *NUMBERS))) | st.integers(low, high)


def _many(check: schema.Check, held: Mapping[str, Any], name: str) -> st.SearchStrategy[Any]:
    some = st.lists(_shaped(held["check"], name), max_size=3)
    return st.one_of(some, *[some.map(lambda more: [ARGV, *more])] * 4) if name == "argv" else some


def _mapping(_check: schema.Check, held: Mapping[str, Any], name: str) -> st.SearchStrategy[Any]:
    return st.dictionaries(_shaped(held["keys"], name), _shaped(held["values"], name), max_size=3)


def _document(check: schema.Check, _held: Mapping[str, Any], _name: str) -> st.SearchStrategy[Any]:
    keys = st.sampled_from((*FIELDS * 4, *HOSTILE))
    return st.dictionaries(keys, VALUES, min_size=1, max_size=5).filter(lambda value: bool(_taken(check, (value,))))


_MAKERS: dict[str, Callable[[schema.Check, Mapping[str, Any], str], st.SearchStrategy[Any]]] = {
    "maybe": _maybe,
    "pattern": _pattern,
    "one_of": lambda check, held, name: st.sampled_from(held["choices"]),
    "text": _text,
    "cleaned": _text,
    "word": _text,
    "path": _path,
    "number": _number,
    "integer": _integer,
    "flag": lambda check, held, name: st.booleans(),
    "many": _many,
    "mapping": _mapping,
    "record": lambda check, held, name: _object(held["checks"]),
    "document": _document,
    "regex": lambda check, held, name: st.sampled_from(_taken(check, REGEXES)),
}


def placed(value: Any, known: Mapping[str, Any]) -> Any:
    """``value`` with what the host under test knows in the place of the signs for it."""
    if isinstance(value, str):
        return known.get(value, value)
    if isinstance(value, dict):
        return {name: placed(one, known) for name, one in value.items()}
    if isinstance(value, list):
        return [word for one in value for word in (known[ARGV] if one == ARGV else [placed(one, known)])]
    return value


def texts_of(value: Any) -> set[str]:
    """Every string in ``value``, names of fields too."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, dict):
        return {text for pair in value.items() for one in pair for text in texts_of(one)}
    return {text for one in value for text in texts_of(one)} if isinstance(value, list) else set()
