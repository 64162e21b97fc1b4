"""Entry of the zipapp: one verb, its arguments. Each verb imports only what it needs, for a start waits on some."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from .paths import PROTO

# verb: (module, function, number of arguments)
_VERBS = {
    "choose": ("choose", "main", 1),
    "become": ("become", "main", 1),
    "ended": ("ended", "main", 1),
    "ended-service": ("ended_service", "main", 1),
    "guard": ("guard", "main", 2),
    "helper": ("helper", "main", 0),
    "viewer": ("helper", "main_viewer", 0),
    "rollback": ("rollback", "main", 0),
    "install": ("helper", "main_install", 0),
    "load": ("load", "main", 0),
}


def main(argv: Sequence[str]) -> int:
    """Runs ``argv[0]`` with the arguments behind it and answers the exit status; 2 for a command that is none."""
    if list(argv) == ["version"]:
        print(PROTO)
        return 0
    name = argv[0] if argv else ""
    module, function, count = _VERBS.get(name, ("", "", -1))
    if len(argv) - 1 != count:
        print(f"usage: {' | '.join([*_VERBS, 'version'])}", file=sys.stderr)
        return 2
    run = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    return int((run(list(argv[1:])) if count else run()) or 0)
