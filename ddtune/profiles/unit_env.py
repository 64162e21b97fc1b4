"""How systemd makes arguments of variables: ``$NAME`` is split, ``${NAME}`` is not, quotes in values are taken away."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from ddtune.profiles.argv import is_flag
from ddtune.profiles.model import Remark

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_SPLIT = re.compile(rf"\$({_NAME})")
_WHOLE = re.compile(rf"\$\$|\$\{{({_NAME})\}}")
_INSIDE = re.compile(rf"(?:^|[^$])(\${_NAME})")
_SHOWN = 4


def split(text: str) -> list[str]:
    """``text`` in words: either quote groups and goes, a backslash goes and keeps what follows it."""
    words: list[str] = []
    word: str | None = None
    quote = ""
    rest = iter(text)
    for char in rest:
        if char == "\\":
            word = (word or "") + next(rest, "")
        elif quote and char != quote:
            word = (word or "") + char
        elif char in "'\"":
            word, quote = word or "", "" if quote else char
        elif char.isspace():
            words += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + char
    return words if word is None else [*words, word]


def expand(words: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The arguments that the process gets of an Exec line's ``words`` under ``env``."""
    found: list[str] = []
    for word in words:
        alone = _SPLIT.fullmatch(word)
        if alone:
            found += split(env.get(alone[1], ""))
        else:
            found.append(_WHOLE.sub(lambda hole: env.get(hole[1], "") if hole[1] else "$", word))
    return found


def lint_command(command: str, env: Mapping[str, str]) -> list[Remark]:
    """Remarks on an ``ExecStart=`` line that takes arguments from ``env`` (of Environment= and EnvironmentFile=)."""
    return [remark for word in split(command) for remark in _word(word, env)]


def _word(word: str, env: Mapping[str, str]) -> Iterator[Remark]:
    alone = _SPLIT.fullmatch(word)
    names = [alone[1]] if alone else [hole[1] for hole in _WHOLE.finditer(word) if hole[1]]
    for name in names:
        if name not in env:
            become = "no argument" if alone or word != f"${{{name}}}" else "an empty argument"
            yield Remark(f"the unit's {word} becomes {become}: {name} is not set")
        elif alone:
            yield from _broken_json(name, env[name])
        else:
            yield from _unsplit(name, env[name])
    if not alone:
        for literal in _INSIDE.findall(_WHOLE.sub("", word)):
            mend = f"${{{literal[1:]}}}"
            yield Remark(f"the unit's {word} keeps {literal} as it stands: inside a word systemd fills in {mend} only")


def _unsplit(name: str, value: str) -> Iterator[Remark]:
    words = split(value)
    if len(words) > 1 and is_flag(words[0]):
        held = ", ".join(word for word in words if is_flag(word))
        yield Remark(
            f"the unit gives ${{{name}}} to the engine as one argument, though it holds several ({held}): "
            f"write ${name} as a word of its own, which systemd splits"
        )


def _broken_json(name: str, value: str) -> Iterator[Remark]:
    words = split(value)
    for at, word in enumerate(words):
        if word[:1] in ("{", "[") and not _is_json(word):
            got = " · ".join(words[at : at + _SHOWN])
            yield Remark(
                f"${name} holds JSON that does not reach the engine whole: systemd takes its quotes away and splits "
                f"it, so the engine gets {got}; inside the value, put the JSON into single quotes"
            )
            return


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
