"""One line of ``doctor``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Symptom:
    """``ok`` is None for what is neither right nor wrong, or could not be looked at.

    ``cost`` is what it means to leave it so; ``mend`` a command or an act.
    """

    name: str
    ok: bool | None
    seen: str
    cost: str = ""
    mend: str = ""


def good(name: str, seen: str) -> Symptom:
    """A line that needs nothing."""
    return Symptom(name, True, seen)


def bad(name: str, seen: str, cost: str, mend: str) -> Symptom:
    """A line that costs something."""
    return Symptom(name, False, seen, cost, mend)


def note(name: str, seen: str, cost: str = "", mend: str = "") -> Symptom:
    """A line to know of."""
    return Symptom(name, None, seen, cost, mend)
