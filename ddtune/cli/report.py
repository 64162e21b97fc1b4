"""How a command ends: one sentence or one JSON object, and an exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

import click

DONE = 0
BUG = 1
USAGE = 2
ROLLED_BACK = 3
ROLLBACK_FAILED = 4
UNKNOWN = 5
HOST_ACTION = 6
REFUSED = 7
UNREACHABLE = 8
CHECK_FAILED = 9
INCONCLUSIVE = 10
INTERRUPTED = 130

OF_OUTCOME = {
    "committed": DONE,
    "rolled_back": ROLLED_BACK,
    "rollback_failed": ROLLBACK_FAILED,
    "unknown": UNKNOWN,
    "host_action_required": HOST_ACTION,
    "refused": REFUSED,
}
"""The exit code of a transaction that nobody asked to go back, by its outcome."""


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print ``text`` at once, its lines as they are and nothing in them that a terminal would act on.

    All that the commands say goes through here: a host's words are in sentences of ddtune's own, too.
    """
    from ddtune.engine.log import inert

    click.echo("\n".join(map(inert, text.split("\n"))), err=err, nl=nl)
    (sys.stderr if err else sys.stdout).flush()


def print_json(body: Mapping[str, Any]) -> None:
    """Print the one object of ``--json``; what is not a number of JSON's (NaN) is never printed.

    What a terminal would act on (C1, DEL, directions) is escaped, which is the same value to who parses it.
    """
    text = json.dumps(body, allow_nan=False, ensure_ascii=False)
    sys.stdout.write("".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text) + "\n")
    sys.stdout.flush()


def fail(message: str, code: int, *, cause: str, as_json: bool, host: str | None = None, **more: Any) -> NoReturn:
    """End with one sentence on standard error and, with ``--json``, one object on standard output."""
    if as_json:
        print_json({"proto": 1, "host": host, "error": {"cause": cause, "message": message}, **more})
    say(f"ddtune: {clean(message)}", err=True)
    raise SystemExit(code)


def clean(text: str) -> str:
    """Text from a host with nothing in it that a terminal would act on."""
    from ddtune.engine.log import sanitise

    return sanitise(text)
