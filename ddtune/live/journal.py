"""Log lines into the state: the tail that is shown, and what the lines tell of the run. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ddtune.engine.ends import CONSEQUENCE
from ddtune.engine.incidents import SECONDARY
from ddtune.engine.log import parse, sanitise
from ddtune.engine.model import Incident, LogLine
from ddtune.engine.phases import Start
from ddtune.engine.readlog import compiles, stall_s
from ddtune.engine.traces import appended
from ddtune.gpu.xid import NVML_SAYS
from ddtune.live.faults import fault, run_began
from ddtune.live.state import State

LOG_KEPT = 500
RUN_KEPT = 1000
INCIDENTS_KEPT = 20
FAULT_S = 60.0
_SYSTEMD = 1
_STARTS = re.compile(r"^Start(?:ing|ed) ")
_BATCHES = frozenset(("decode", "prefill"))


def with_log(state: State, line: Mapping[str, Any]) -> State:
    """``state`` after a line of kind ``log``."""
    source = str(line.get("source") or "unit")
    entries = line.get("entries")
    tells = False
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and _is_time(entry.get("at")):
            state, shown = _with_entry(state, source, entry)
            tells = tells or (_tells(shown) and not _settled(state, shown))
    return judged(state) if tells else state


def with_gap(state: State, line: Mapping[str, Any]) -> State:
    """``state`` after a line of kind ``gap``: some lines are missing here, and why."""
    source = str(line.get("source") or "unit")
    why = str(line.get("text") or "the link was too slow")
    text = sanitise(f"some lines of the {source} journal were left out here: {why}")
    shown = LogLine(_time(line.get("at")), text, source, kind="gap", severity="warning")
    return replace(state, log=(*state.log, shown)[-LOG_KEPT:])


def judged(state: State) -> State:
    """``state`` with the fault of the present run, if there is one, in place of what was known of it.

    What rested on NVML's word alone is taken back where the kernel says that it was somebody else's, or is no fault.
    """
    found, begin = fault(state), run_began(state)
    if found is None:
        stay = tuple(one for one in state.incidents if begin is None or one.at < begin or not _by_nvml_alone(one))
        return replace(state, incidents=stay)
    known = next((one for one in state.incidents if _same(one, found, begin)), None)
    oldest = next((line.at for line in state.since_start if line.source == "unit"), found.at)
    if known is not None and known.at < min(oldest, found.at):
        return state  # The first fault's lines are no longer kept; what came later followed from it.
    if known is not None and known.profile is not None:
        # The next run may already be known to be another profile's.
        found = replace(found, profile=known.profile, changed=known.changed)
    others = tuple(one for one in state.incidents if not _same(one, found, begin))
    return replace(state, incidents=(*others, found)[-INCIDENTS_KEPT:])


def _by_nvml_alone(incident: Incident) -> bool:
    return all(one.text.startswith(NVML_SAYS) for one in incident.evidence)


def _with_entry(state: State, source: str, entry: Mapping[str, Any]) -> tuple[State, LogLine]:
    cursor, priority, pid = entry.get("cursor"), entry.get("priority"), entry.get("pid")
    shown = parse(
        str(entry.get("text") or ""),
        at=float(entry["at"]),
        source=source,
        cursor=cursor if isinstance(cursor, str) else None,
        priority=priority if isinstance(priority, int) else None,
        pid=pid if isinstance(pid, int) else None,
    )
    began = source == "unit" and shown.pid == _SYSTEMD and _STARTS.match(shown.text) is not None
    if began:
        # What the lines of the run before tell is settled with them.
        state = judged(state)
    changed: dict[str, Any] = _of_start(state, shown) if began else {"since_start": _kept(state.since_start, shown)}
    changed["log"] = appended(state.log, shown, LOG_KEPT)
    if shown.cursor:
        changed["cursors"] = {**state.cursors, source: shown.cursor}
    if source == "kernel":
        changed["xids"] = state.xids.after_line(shown.at, shown.text)
    elif source == "unit" and not began:
        changed |= _of_unit(state, shown)
    return replace(state, **changed), shown


def _of_start(state: State, line: LogLine) -> dict[str, Any]:
    kernel = tuple(one for one in state.since_start if one.source == "kernel")[-50:]
    return {"since_start": (*kernel, line), "start": Start(line.at), "compiled_at": None, "stall": None}


def _of_unit(state: State, line: LogLine) -> dict[str, Any]:
    start = state.start or Start(line.at)
    if line.kind in _BATCHES:
        heard = max(state.engine.moved_at or 0.0, min(line.at + state.clock_offset_s, state.heard_at))
        return {"start": start, "engine": replace(state.engine, moved_at=heard)}
    changed: dict[str, Any] = {"start": start if start.fired_up_at is not None else start.after(line)}
    if compiles(line):
        changed["compiled_at"] = line.at
    stall = stall_s(line)
    if stall is not None:
        changed["stall"] = (line.at, stall)
    return changed


def _kept(lines: tuple[LogLine, ...], line: LogLine) -> tuple[LogLine, ...]:
    """The run's lines; a flood leaves the first ones in their place."""
    if line.fatal is None and line.kind == "other" and line.severity == "info":
        return appended(lines, line, RUN_KEPT)
    return (*lines, line)[-RUN_KEPT:]


def _tells(line: LogLine) -> bool:
    """Whether the line may change what is known of a fault."""
    if line.severity == "error" or line.fatal is not None or line.source == "kernel":
        return True
    ended = line.pid in (_SYSTEMD, None) and CONSEQUENCE.search(line.text) is not None
    return ended or SECONDARY.search(line.text) is not None


def _settled(state: State, line: LogLine) -> bool:
    """Whether the run's fault is known and too old for ``line`` to be a part of it."""
    begin = run_began(state)
    known = next((one for one in reversed(state.incidents) if begin is not None and one.at >= begin), None)
    return known is not None and line.source == "unit" and line.at - known.at > FAULT_S


def _same(known: Incident, found: Incident, begin: float | None) -> bool:
    # Later lines of a run may name the reason of a death better, and then the cause moves.
    return known.at == found.at or (begin is not None and known.at >= begin and found.at >= begin)


def _time(value: Any) -> float:
    return float(value) if _is_time(value) else 0.0


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e12 < value < 1e12
