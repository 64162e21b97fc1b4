"""Log lines into the state: the tail that is shown, and the faults that the lines tell of. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ddtune.engine.incidents import classify
from ddtune.engine.log import parse, sanitise
from ddtune.engine.model import Incident, LogLine
from ddtune.gpu.reading import by_pci
from ddtune.live.state import State

LOG_KEPT = 500
RUN_KEPT = 1000
INCIDENTS_KEPT = 20
_SYSTEMD = 1
_STARTS = re.compile(r"^Start(?:ing|ed) ")


def with_log(state: State, line: Mapping[str, Any]) -> State:
    """``state`` after a line of kind ``log``."""
    source = str(line.get("source") or "unit")
    entries = line.get("entries")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and isinstance(entry.get("at"), (int, float)):
            state = _with_entry(state, source, entry)
    return _judged(state)


def with_gap(state: State, line: Mapping[str, Any]) -> State:
    """``state`` after a line of kind ``gap``: some lines were dropped because the link was too slow."""
    source = str(line.get("source") or "unit")
    text = f"some lines of the {source} journal were left out here: the link was too slow"
    shown = LogLine(float(line.get("at") or 0.0), text, source, kind="gap", severity="warning")
    return replace(state, log=(*state.log, shown)[-LOG_KEPT:])


def _with_entry(state: State, source: str, entry: Mapping[str, Any]) -> State:
    text, cursor, priority = str(entry.get("text") or ""), entry.get("cursor"), entry.get("priority")
    shown = parse(
        text,
        at=float(entry["at"]),
        source=source,
        cursor=cursor if isinstance(cursor, str) else None,
        priority=priority if isinstance(priority, int) else None,
    )
    cursors = {**state.cursors, source: shown.cursor} if shown.cursor else state.cursors
    since_start = state.since_start
    if source == "unit" and entry.get("pid") == _SYSTEMD and _STARTS.match(sanitise(text)):
        state = _judged(state)
        since_start = tuple(one for one in since_start if one.source == "kernel")[-50:]
    return replace(
        state,
        log=(*state.log, shown)[-LOG_KEPT:],
        since_start=(*since_start, shown)[-RUN_KEPT:],
        cursors=cursors,
    )


def _judged(state: State) -> State:
    """``state`` with the fault of the present run, if its lines tell of one, in place of what was known of it."""
    if not any(line.severity == "error" for line in state.since_start):
        return state
    found = classify(state.since_start, by_pci(state.gpus))
    if found is None:
        return state
    others = tuple(one for one in state.incidents if not _same(one, found, run_began(state)))
    return replace(state, incidents=(*others, found)[-INCIDENTS_KEPT:])


def run_began(state: State) -> float | None:
    """When the present run wrote its first line, by the host's clock; None when no line of it is known."""
    return next((line.at for line in state.since_start if line.source == "unit"), None)


def _same(known: Incident, found: Incident, begin: float | None) -> bool:
    # Later lines of a run may name the reason of a death better, and then the cause moves.
    return known.at == found.at or (begin is not None and known.at >= begin and found.at >= begin)
