"""The files that a unit's settings read variables from, which count for a start as the settings themselves do."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Optional

from . import env_file

# Made anew while the host runs, often at each start.
_VOLATILE = ("/run/", "/var/run/", "/proc/", "/dev/")


def files(unit: str, settings: Iterable[Mapping[str, Sequence[str]]]) -> list[str]:
    """Paths that ``EnvironmentFile=`` names in ``settings``, which stand in systemd's order; an empty one takes those
    before it back.

    One of several names, in ``*?[]``, stands for what there is. Left out are files of volatile folders, and names with
    a specifier that is not of the unit's own name.
    """
    patterns: list[str] = []
    for one in settings:
        for value in one.get("Service.EnvironmentFile", ()):
            patterns = [*patterns, value.removeprefix("-")] if value else []
    found: list[str] = []
    for path in filter(None, (_expanded(unit, pattern) for pattern in patterns)):
        if path.startswith("/") and not path.startswith(_VOLATILE):
            found += sorted(glob.glob(path)) or [path]
    return list(dict.fromkeys(found))


def variables(text: str) -> dict[str, list[str]]:
    """The variables in such a file, each with its value."""
    return {name: [value] for name, value in env_file.parse(text).items()}


def _expanded(unit: str, pattern: str) -> Optional[str]:
    """``pattern`` with the specifiers of systemd.unit(5) that tell the unit's name; None where there are others."""
    name = unit.rpartition(".")[0]
    prefix, _, instance = name.partition("@")
    known = {"n": unit, "N": name, "p": prefix, "i": instance, "%": "%"}
    letters = re.findall(r"%(.?)", pattern)
    if any(letter not in known for letter in letters):
        return None
    return re.sub(r"%(.)", lambda match: known[match[1]], pattern)
