"""Expressions that could keep the guard from its work: refused where that shows in them, cut off where it does not."""

from __future__ import annotations

import importlib
import re
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

LIMIT_S = 0.25
"""Seconds of this process's own time that one expression may take for one line."""

_OFTEN = 256
_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")


class SlowError(Exception):
    """The expression did not come to an end in time."""


def nested(expression: str) -> bool:
    """Whether ``expression`` repeats without end what can itself be read in several ways: ``(a+)+``, ``(a|b c)*``.

    Such a one may take longer than the world lasts for a line of thirty characters.
    """
    return _nested(_parser.parse(expression), False)


def _nested(parsed: Any, repeated: bool) -> bool:
    for operator, argument in parsed:
        name = str(operator)
        repeats, again = name.endswith("_REPEAT"), repeated
        if repeated and (name == "BRANCH" or (repeats and argument[0] != argument[1])):
            return True
        if repeats:
            again = repeated or int(argument[1]) > _OFTEN
        elif name.startswith("ASSERT"):
            # Nobody comes back into one for another way.
            again = False
        if any(_nested(part, again) for part in _parts(argument)):
            return True
    return False


def _parts(argument: Any) -> Iterator[Any]:
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for one in argument:
            yield from _parts(one)


def search(regex: re.Pattern[str], text: str) -> bool:
    """Whether ``regex`` matches in ``text``. Raises SlowError after ``LIMIT_S``, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return regex.search(text) is not None
    before = signal.signal(signal.SIGVTALRM, _too_slow)
    try:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
            return regex.search(text) is not None
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    finally:
        signal.signal(signal.SIGVTALRM, before)


def _too_slow(*_: object) -> None:
    raise SlowError
