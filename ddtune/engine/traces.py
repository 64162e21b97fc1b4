"""Which lines belong together: a trace and the line that opened it, also where several ranks write at once. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ddtune.engine.log import body_of
from ddtune.engine.model import LogLine

BACK = 200
FLOOD_AFTER = 3
_FLOOD_WINDOW = 8
_FOLD_WINDOW = 24
_PLAIN = frozenset(("other", "error", "gap"))

_HEADER = re.compile(r"^Scheduler hit an exception")
_TRACEBACK = "Traceback (most recent call last)"
_VARIES = re.compile(r"0x[0-9a-fA-F]+|[0-9a-f]{8,}(?:-[0-9a-f]{4,})*|\d+(?:\.\d+)?")


def opens(line: LogLine) -> bool:
    """Whether ``line`` opens a trace."""
    return _TRACEBACK in line.text or _HEADER.search(body_of(line)) is not None


def start_of_trace(unit: Sequence[LogLine], place: int) -> int:
    """Where the trace that holds ``unit[place]`` was opened; ``place`` itself where none was.

    Lines of a trace carry no rank, and ranks write at the same time: of lines whose process is known only those of the
    same process count.
    """
    for back in range(place, max(-1, place - BACK), -1):
        if same_process(unit[back], unit[place]) and opens(unit[back]):
            return back
    return place


def context(unit: Sequence[LogLine], place: int) -> list[LogLine]:
    """The trace up to ``unit[place]``, of its own process."""
    return [line for line in unit[start_of_trace(unit, place) : place + 1] if same_process(line, unit[place])]


def header(unit: Sequence[LogLine], place: int) -> LogLine | None:
    """The line with a rank that opened the trace of ``unit[place]``, which has none of its own."""
    if unit[place].rank is not None:
        return None
    opened = unit[start_of_trace(unit, place)]
    return opened if opened is not unit[place] and opened.rank is not None else None


def same_process(one: LogLine, other: LogLine) -> bool:
    """Whether both were written by one process, as far as the journal says."""
    return one.pid is None or other.pid is None or one.pid == other.pid


def appended(log: tuple[LogLine, ...], line: LogLine, kept: int) -> tuple[LogLine, ...]:
    """``log`` with ``line`` behind it, for a reader: frames of a trace are folded into the line that opened it, and a
    flood of lines that differ in numbers only becomes one counted line. At most ``kept`` lines stay.
    """
    place = _opened_before(log, line) if _is_frame(line) else _flooded(log, line)
    if place is None:
        return (*log, line)[-kept:]
    known = log[place]
    if _is_frame(line):
        merged = replace(known, folded=known.folded + 1)
        return (*log[:place], merged, *log[place + 1 :])
    merged = replace(line, count=known.count + 1, rank=line.rank or known.rank)
    return (*log[:place], *log[place + 1 :], merged)


def shape(text: str) -> str:
    """``text`` without what differs from one line of a flood to the next."""
    return _VARIES.sub("#", text[:160])


def _is_frame(line: LogLine) -> bool:
    return line.source == "unit" and line.kind in ("traceback", "other") and body_of(line)[:2] in ("  ", "\t ")


def _opened_before(log: Sequence[LogLine], line: LogLine) -> int | None:
    for place in range(len(log) - 1, max(-1, len(log) - _FOLD_WINDOW), -1):
        if log[place].source == line.source and same_process(log[place], line) and _TRACEBACK in log[place].text:
            return place
    return None


def _flooded(log: Sequence[LogLine], line: LogLine) -> int | None:
    if line.kind not in _PLAIN or line.fatal:
        return None
    wanted = shape(line.text)
    alike = [
        place
        for place in range(max(0, len(log) - _FLOOD_WINDOW), len(log))
        if log[place].source == line.source and log[place].kind == line.kind and shape(log[place].text) == wanted
    ]
    if len(alike) >= FLOOD_AFTER or (alike and log[alike[-1]].count > 1):
        return alike[-1]
    return None
