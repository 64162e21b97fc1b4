"""The Xid catalogue as data: what each number blames, and what to do. The table itself is xid.toml, with its date."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_RECOVERY = re.compile(r"\(([A-Z][^()]*)\)\s*$")
_NONFATAL = re.compile(r"\bNon-?fatal\b", re.IGNORECASE)
UNKNOWN_RECOVERY = "do what the driver asks for"


@dataclass(frozen=True)
class Meaning:
    """``blames`` is ``profile``, ``hardware``, ``nobody`` or ``restart``; ``action`` what to do, or None."""

    name: str
    blames: str
    action: str | None = None


def meaning(number: int, text: str = "") -> Meaning:
    """What an Xid means. ``text`` is the kernel's line behind the number; it decides where the number does not."""
    entry = _table()["xid"].get(str(number))
    if entry is None:
        return Meaning("not in the catalogue", "nobody")
    name, blames, action = str(entry["name"]), str(entry["blames"]), entry.get("action")
    if blames == "text":
        return _recovery(name, text)
    if entry.get("nonfatal") and _NONFATAL.search(text):
        return Meaning(f"{name} (nonfatal)", "nobody")
    return Meaning(name, blames, _table()["actions"][action] if action else None)


def _recovery(name: str, text: str) -> Meaning:
    found = _RECOVERY.search(text)
    word = found[1] if found else ""
    entry: Mapping[str, str] | None = _table()["recovery"].get(word)
    name = f"{name}: {word}" if word else name
    if entry is None:
        return Meaning(name, "hardware", UNKNOWN_RECOVERY)
    action = entry.get("action")
    return Meaning(name, entry["blames"], _table()["actions"][action] if action else None)


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(files("ddtune.gpu").joinpath("xid.toml").read_text(encoding="utf-8"))
