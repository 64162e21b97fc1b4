"""Small pieces of TOML, for the files that ddtune drafts."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ddtune.profiles.model import AxisValue, Setting


def value(one: AxisValue) -> str:
    """A value of an axis."""
    if isinstance(one, bool):
        return "true" if one else "false"
    return text(one) if isinstance(one, str) else repr(one)


def text(one: str) -> str:
    """A string. JSON's escapes are TOML's too, but for DEL, which TOML wants escaped."""
    return json.dumps(one, ensure_ascii=False).replace("\x7f", "\\u007f")


def array(many: Iterable[str]) -> str:
    """An array of strings, on one line."""
    return f"[{', '.join(map(text, many))}]"


def setting(table: str, one: Setting) -> list[str]:
    """A setting under ``[table]``."""
    lines = [f"[{table}]"]
    lines += [f"{key} = {array(found)}" for key in ("args", "drop", "unset") if (found := getattr(one, key))]
    if one.env:
        lines.append(f"env = {{ {', '.join(f'{name} = {text(held)}' for name, held in one.env.items())} }}")
    return lines
