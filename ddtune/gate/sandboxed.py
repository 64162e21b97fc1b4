"""Runs inside the sandbox, alone: one function on the inputs of one problem, in one process.

Reads ``{code, function, inputs, drop, modules, limits}`` from standard input and writes ``{values}`` or ``{error}`` to
standard output. Each value is ``["ok", value]`` or ``["error", what]``. Expected values never come here.
"""

from __future__ import annotations

import builtins
import json
import os
import resource
import sys
from typing import Any

NOBODY = 65534
KEPT_OUT = ("breakpoint", "compile", "eval", "exec", "exit", "help", "input", "open", "quit")


def confine(limits: dict[str, int], drop: bool) -> None:
    """Give up rights and set the limits that also hold where a namespace does not."""
    if drop:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        resource.setrlimit(kind, (value, value))


def guarded(modules: list[str] | None) -> dict[str, Any]:
    """The built-ins that solutions see: imports by allow-list, no files and no code from text."""
    if modules is None:
        return vars(builtins)

    def guarded_import(name: str, *rest: Any) -> Any:
        if name not in modules:
            raise ImportError(f"import of {name} is not allowed")
        return __import__(name, *rest)

    names = {name: value for name, value in vars(builtins).items() if name not in KEPT_OUT}
    names["__import__"] = guarded_import
    return names


def plain(value: Any) -> Any:
    """The value as JSON carries it; raises TypeError for what JSON cannot."""
    return json.loads(json.dumps(value))


def attempt(function: Any, arguments: list[Any]) -> list[Any]:
    """One call, whatever it does."""
    try:
        return ["ok", plain(function(*arguments))]
    except BaseException as error:  # noqa: BLE001 - the code is hostile until shown otherwise, SystemExit included
        return ["error", type(error).__name__]


def solve(task: dict[str, Any]) -> dict[str, Any]:
    """All inputs of one problem."""
    space: dict[str, Any] = {"__name__": "solution", "__builtins__": guarded(task["modules"])}
    try:
        exec(compile(task["code"], "solution", "exec"), space)
        function = space[task["function"]]
    except BaseException as error:  # noqa: BLE001 - as above
        return {"error": f"{type(error).__name__} while it was loaded"}
    return {"values": [attempt(function, arguments) for arguments in task["inputs"]]}


def main() -> None:
    """Read the task, close everything, run it, answer."""
    task = json.load(sys.stdin)
    # What the solution prints must not reach the answer.
    out = os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    confine(task["limits"], task["drop"])
    os.write(out, json.dumps(solve(task)).encode())


if __name__ == "__main__":
    main()
