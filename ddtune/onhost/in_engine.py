"""The programs that the engine's own Python runs, as text."""

from __future__ import annotations

import importlib.util


def source(program: str) -> str | None:
    """The text of a program by its module's name, from wherever this one was loaded."""
    spec = importlib.util.find_spec(program)
    get = getattr(spec and spec.loader, "get_source", None)
    return get(program) if get else None
