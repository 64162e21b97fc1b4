"""What is odd with the variables on a unit's Exec line, which systemd fills in by rules of its own.

``$NAME`` as a word is split and loses its quotes, ``${NAME}`` is one argument, and inside a word ``$NAME`` stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from . import env_file

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_SPLIT = re.compile(rf"\$({_NAME})")
_WHOLE = re.compile(rf"\$\$|\$\{{({_NAME})\}}")
_INSIDE = re.compile(rf"(?:^|[^$])(\${_NAME})")
_FLAG = re.compile(r"--?[A-Za-z]")
_SHOWN = 4


def lint(command: str, env: Mapping[str, str]) -> list[str]:
    """Sentences on an ``ExecStart=`` line, as ``systemctl show`` prints it, that takes arguments from ``env``."""
    return [sentence for word in command.split() for sentence in _word(word, env)]


def _word(word: str, env: Mapping[str, str]) -> Iterator[str]:
    alone = _SPLIT.fullmatch(word)
    names = [alone[1]] if alone else [hole[1] for hole in _WHOLE.finditer(word) if hole[1]]
    for name in names:
        if name not in env:
            become = "no argument" if alone or word != f"${{{name}}}" else "an empty argument"
            yield f"the unit's {word} becomes {become}: {name} is not set"
        elif alone:
            yield from _broken_json(name, env[name])
        else:
            yield from _unsplit(name, env[name])
    if not alone:
        for literal in _INSIDE.findall(_WHOLE.sub("", word)):
            mend = f"${{{literal[1:]}}}"
            yield f"the unit's {word} keeps {literal} as it stands: inside a word systemd fills in {mend} only"


def _unsplit(name: str, value: str) -> Iterator[str]:
    words = env_file.split(value)
    if len(words) > 1 and _FLAG.match(words[0]):
        held = ", ".join(word.partition("=")[0] for word in words if _FLAG.match(word))
        yield (
            f"the unit gives ${{{name}}} to the engine as one argument, though it holds several ({held}): "
            f"write ${name} as a word of its own, which systemd splits"
        )


def _broken_json(name: str, value: str) -> Iterator[str]:
    words = env_file.split(value)
    for at, word in enumerate(words):
        if word[:1] in ("{", "[") and not _is_json(word):
            end = next((n for n in range(at, len(words)) if words[n][-1:] in ("}", "]")), at)
            got = " · ".join(words[at : min(end + 1, at + _SHOWN)])
            yield (
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
