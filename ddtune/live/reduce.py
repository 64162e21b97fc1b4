"""``reduce``: what one line of the collector changes. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ddtune.engine.exposition import Scrape, parse
from ddtune.engine.metrics import reading
from ddtune.engine.model import EngineReading
from ddtune.engine.readlog import reading_from_log
from ddtune.engine.server_info import read_loads, read_server_info
from ddtune.gpu.reading import from_line
from ddtune.gpu.slots import keep
from ddtune.live.faults import differs
from ddtune.live.journal import judged, with_gap, with_log
from ddtune.live.state import Api, Engine, Ran, Run, State

# Rates over a few seconds: one tick is too short for counters that move when a request ends.
WINDOW_S = 5.0
NOTES_KEPT = 10
LOG_TAIL = 64
# Lines that are sent as soon as they are read, so that they tell the difference of the two clocks.
_ON_TIME = frozenset(("gpus", "metrics", "ready", "unit"))


def reduce(state: State, line: Mapping[str, Any], received_at: float) -> State:
    """``state`` after ``line``, which came at ``received_at`` (seconds since the epoch). Odd lines change nothing."""
    step, at = _STEPS.get(str(line.get("t"))), line.get("at", 0.0)
    if step is None or isinstance(at, bool) or not isinstance(at, (int, float)) or not math.isfinite(at):
        return state
    state = replace(state, heard_at=received_at)
    if line.get("t") in _ON_TIME and at:
        state = replace(state, clock_offset_s=received_at - at)
    return step(state, line, received_at)


def _hello(state: State, line: Mapping[str, Any], _received_at: float) -> State:
    # A new collector says again what it cannot read.
    return replace(state, hello=line, notes=(), unreadable=frozenset())


def _gpus(state: State, line: Mapping[str, Any], received_at: float) -> State:
    source, present = str(line.get("via") or "none"), line.get("present")
    if source == "none":
        # A driver that cannot be asked says nothing of the GPUs: they grow old, and are not lost.
        error = str(line.get("error") or "no reason given")
        silent = replace(state, gpu_source=state.gpu_source or source, gpu_error=error)
        return _with_note(silent, f"no GPU reading: {error}.") if state.gpu_error is None else silent
    addresses = [one for one in present if isinstance(one, str)] if isinstance(present, list) else []
    gpus = keep(state.gpus, from_line(line), addresses)
    return replace(state, gpus=gpus, gpu_source=source, gpus_at=received_at, gpu_error=None)


def _xid(state: State, line: Mapping[str, Any], _received_at: float) -> State:
    number, pci = line.get("number"), line.get("pci")
    if not isinstance(number, int) or isinstance(number, bool):
        return state
    told = state.xids.after_event(float(line.get("at") or 0.0), pci if isinstance(pci, str) else "", number)
    return judged(replace(state, xids=told))


def _info(state: State, line: Mapping[str, Any], _received_at: float) -> State:
    run = line.get("run")
    return replace(state, info=read_server_info(line.get("body")), info_run=run if isinstance(run, str) else None)


def _journal(state: State, line: Mapping[str, Any], _received_at: float) -> State:
    readable, source = line.get("readable") is not False, str(line.get("source") or "unit")
    return replace(state, unreadable=state.unreadable - {source} if readable else state.unreadable | {source})


def _metrics(state: State, line: Mapping[str, Any], received_at: float) -> State:
    count = line.get("lines")
    now = parse(str(line.get("text") or ""), float(line.get("at") or 0.0), count if isinstance(count, int) else 0)
    if now.unknown_names:
        state = _with_note(
            state, "/metrics answers, but with no name that ddtune knows: is it another engine's version?"
        )
    engine = state.engine
    # The oldest scrape in the window and all behind it; the last one is kept however old it is.
    kept = tuple(one for one in engine.scrapes if now.at - one.at <= WINDOW_S) or engine.scrapes[-1:]
    log = reading_from_log(state.log[-LOG_TAIL:], now.at)
    found = reading(kept[0] if kept else None, now, state.clock_scale, engine.loads, log)
    before = engine.reading
    ended = _grew(before, found, "requests_total")
    moved = bool(engine.scrapes) and _counted(now) > _counted(engine.scrapes[-1])
    running = found.running or found.waiting
    since = (engine.running_since or received_at) if running else None
    return replace(
        state,
        api=replace(state.api, port="open", answered_at=received_at),
        run=replace(state.run, was_open=True),
        engine=replace(
            engine,
            scrapes=(*kept, now),
            reading=found,
            at=received_at,
            proof_at=received_at if ended else engine.proof_at,
            moved_at=received_at if moved else engine.moved_at,
            running_since=since,
        ),
    )


def _counted(scrape: Scrape) -> float:
    """Tokens of any kind that were computed or delivered; prefill counts as progress too."""
    return (scrape.total("realtime_tokens_total") or 0.0) + (scrape.total("generation_tokens_total") or 0.0)


def _grew(before: EngineReading | None, now: EngineReading, name: str) -> bool:
    old, new = getattr(before, name, None), getattr(now, name)
    return old is not None and new is not None and new > old


def _loads(state: State, line: Mapping[str, Any], received_at: float) -> State:
    return _without_metrics(
        replace(state, engine=replace(state.engine, loads=read_loads(line.get("body")))), received_at
    )


def _without_metrics(state: State, received_at: float) -> State:
    """Where there are no metrics, what the loads and the log say."""
    engine = state.engine
    # Behind a closed port nothing runs: what the log says last is of an engine that is gone.
    if engine.scrapes or state.api.port == "refused":
        return state
    log = reading_from_log(state.log[-LOG_TAIL:], received_at - state.clock_offset_s)
    if not (engine.loads or log):
        return state
    found = reading(None, Scrape(received_at), loads=engine.loads, log=log)
    since = (engine.running_since or received_at) if found.running else None
    return replace(state, engine=replace(engine, reading=found, at=received_at, running_since=since))


def _ready(state: State, line: Mapping[str, Any], received_at: float) -> State:
    status, port = line.get("status"), line.get("port")
    port = port if isinstance(port, str) else ("open" if status else None)
    answered_at = received_at if port == "open" else state.api.answered_at
    api = Api(port, status if isinstance(status, int) else None, received_at, answered_at)
    run = replace(
        state.run, was_open=state.run.was_open or port == "open", was_ready=state.run.was_ready or status == 200
    )
    # Nothing behind the port: the last counters describe an engine that is gone.
    engine = _forgotten(state.engine) if port == "refused" else state.engine
    return replace(state, api=api, run=run, engine=engine)


def _unit(state: State, line: Mapping[str, Any], received_at: float) -> State:
    props = line.get("props")
    if not isinstance(props, Mapping):
        return state
    invocation, pid = str(props.get("InvocationID") or ""), _whole(props.get("MainPID"))
    run, engine = state.run, state.engine
    if (invocation, pid) != (run.invocation, run.pid):
        # The first look at a run says nothing of how long it has been there.
        engine = _forgotten(engine) if run.seen_at is not None else engine
        state = replace(state, info=None)
        run = Run(invocation, pid, received_at, was_open=state.api.port == "open" and run.seen_at is None)
    schedulers, expected = line.get("schedulers"), line.get("schedulers_expected")
    complete = isinstance(schedulers, int) and isinstance(expected, int) and schedulers >= expected
    return replace(
        state, unit=line, unit_at=received_at, run=replace(run, had_all=run.had_all or complete), engine=engine
    )


def _ddtune(state: State, line: Mapping[str, Any], _received_at: float) -> State:
    running = line.get("running")
    if not isinstance(running, Mapping):
        return replace(state, ddtune=line)
    profile = running.get("profile")
    return replace(state, ddtune=line, ran=Ran(profile if isinstance(profile, str) else None, differs(line)))


def _note(state: State, line: Mapping[str, Any], _received_at: float) -> State:
    return _with_note(state, str(line.get("text") or ""))


def _log(state: State, line: Mapping[str, Any], received_at: float) -> State:
    after = with_log(state, line)
    # One reading a tick is enough, however many lines there are.
    due = after.engine.at is None or received_at - after.engine.at >= state.tick_s / 2
    return _without_metrics(after, received_at) if due else after


def _gap(state: State, line: Mapping[str, Any], _received_at: float) -> State:
    return with_gap(state, line)


def _with_note(state: State, text: str) -> State:
    if not text or text in state.notes:
        return state
    return replace(state, notes=(*state.notes, text)[-NOTES_KEPT:])


def _forgotten(engine: Engine) -> Engine:
    return Engine(proof_at=engine.proof_at)


def _whole(value: Any) -> int:
    return int(value) if str(value).isdecimal() else 0


_STEPS: dict[str, Callable[[State, Mapping[str, Any], float], State]] = {
    "hello": _hello,
    "gpus": _gpus,
    "metrics": _metrics,
    "loads": _loads,
    "ready": _ready,
    "unit": _unit,
    "ddtune": _ddtune,
    "note": _note,
    "log": _log,
    "gap": _gap,
    "xid": _xid,
    "info": _info,
    "journal": _journal,
}
