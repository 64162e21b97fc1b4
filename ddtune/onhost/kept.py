"""What the checks of an operation asked and got, and what was read meanwhile: for a ticket, and never needed.

Each kind is a file of JSON lines that keeps its first and its last part. Nothing is synced, and where there is no room
nothing is written.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

from . import clock, schema, store
from .context import Answer, Host, RefusalError
from .paths import UnitPaths
from .room import check_room

FIRST = 96 * 1024
LAST = 48 * 1024
"""Bytes of a kind's first part, and of each of the two that follow each other behind it."""
OPERATIONS = 20
_KINDS = ("answers", "readings")
_LINE = 8 * 1024

_LINES = schema.maybe(schema.many(schema.document(_LINE), 500), ())
KEEP: schema.Fields = {"op": schema.op, "answers": _LINES, "readings": _LINES}


def keep(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Keeps lines of ``op`` that the operator's side sends; ``ago_s`` in each becomes ``at``, by this host's clock."""
    paths, now = host.adopted(unit), clock.wall()
    for kind in _KINDS:
        add(paths, fields["op"], kind, (_dated(line, now) for line in fields[kind]))
    return {}


def add(paths: UnitPaths, op: str, kind: str, lines: Iterable[Mapping[str, Any]]) -> None:
    """Appends ``lines``; where that is not possible they are lost."""
    # ValueError: half a surrogate pair in what an engine said.
    with contextlib.suppress(OSError, RefusalError, ValueError):
        check_room(paths.state)
        folder = f"{paths.evidence}/{op}"
        if not os.path.isdir(folder):
            os.makedirs(folder, mode=0o700)
            _prune(paths)
        for line in lines:
            _append(f"{folder}/{kind}", store.to_bytes(line))


def read(paths: UnitPaths, op: str) -> dict[str, Any]:
    """All lines of ``op`` by kind, and in ``dropped`` how many of each fell out in the middle."""
    found: dict[str, Any] = {"dropped": {}}
    for kind in _KINDS:
        base = f"{paths.evidence}/{op}/{kind}"
        found[kind] = [line for part in ("first", "before", "last") for line in store.read_lines(f"{base}-{part}")]
        found["dropped"][kind] = _count(f"{base}-dropped")
    return found


def _append(base: str, line: bytes) -> None:
    if _size(f"{base}-first") + len(line) <= FIRST and not os.path.exists(f"{base}-last"):
        _write(f"{base}-first", line)
        return
    if _size(f"{base}-last") + len(line) > LAST:
        gone = len(store.read_lines(f"{base}-before"))
        if gone:
            dropped = _count(f"{base}-dropped") + gone
            with open(f"{base}-dropped", "w", encoding="ascii") as file:
                file.write(str(dropped))
        os.replace(f"{base}-last", f"{base}-before")
    _write(f"{base}-last", line)


def _write(path: str, line: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def _prune(paths: UnitPaths) -> None:
    """Only the newest operations stay: their names begin with a number that grows."""
    names = sorted(os.listdir(paths.evidence), key=lambda name: (_number(name), name))
    for name in names[: max(0, len(names) - OPERATIONS)]:
        shutil.rmtree(f"{paths.evidence}/{name}", ignore_errors=True)


def _number(name: str) -> int:
    digits = name.partition("-")[0]
    return int(digits) if digits.isdigit() else 0


def _count(path: str) -> int:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read(20))
    except (OSError, ValueError):
        return 0


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _dated(line: Mapping[str, Any], now: float) -> dict[str, Any]:
    ago = line.get("ago_s")
    seconds = ago if isinstance(ago, (int, float)) and not isinstance(ago, bool) else 0.0
    return {**{name: value for name, value in line.items() if name != "ago_s"}, "at": round(now - seconds, 3)}
