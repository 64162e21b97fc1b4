"""Templates of a dialect: ``{value}`` stands for an axis's value, ``{value+1}`` for a count that is one more."""

from __future__ import annotations

import re

from ddtune.profiles.model import AxisValue, value_key

_HOLE = re.compile(r"\{value(?:\+(\d+))?\}")


def is_hole(text: str) -> bool:
    """Whether ``text`` is a hole and nothing else, so that a value can be read back from it."""
    return _HOLE.fullmatch(text) is not None


def fill(text: str, value: AxisValue) -> str:
    """``text`` with every hole filled. Raises ValueError for a hole that counts and a value that is no count."""

    def one(hole: re.Match[str]) -> str:
        if hole[1] is None:
            return value_key(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{value_key(value)} is not a whole number")
        return str(value + int(hole[1]))

    return _HOLE.sub(one, text)


def read(hole: str, text: str) -> str | None:
    """What was filled into ``hole`` to give ``text``; None when a count is no count."""
    match = _HOLE.fullmatch(hole)
    if match is None or match[1] is None:
        return text
    return str(int(text) - int(match[1])) if text.isascii() and text.isdigit() else None
