"""``snapshot``: the picture of a host at one moment, from what is known and how old it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ddtune.engine.model import EngineReading
from ddtune.engine.readlog import FRESH_S
from ddtune.gpu.alarms import alarms, xid_sentence
from ddtune.gpu.reading import by_pci
from ddtune.live.faults import run_began, with_pattern
from ddtune.live.health import STALL_SHOWN_S, Facts, judge
from ddtune.live.snapshot import Ages, ServiceReading, Snapshot, Watch
from ddtune.live.state import State
from ddtune.profiles import standing

XIDS_NOTED = 3
# Four signs of life in a row that did not come (rollout/watcher.py sends one each 30 s).
WATCH_SILENT_S = 120.0
_MODES = ("acts", "tells", "dry")
_SERVED = frozenset(("decode", "prefill"))


def snapshot(state: State, now: float) -> Snapshot:
    """The picture at ``now``, seconds since the epoch on the operator's clock."""
    txn = state.ddtune.get("txn")
    watched = watches(state.ddtune)
    gpu_age = _age(state.gpus_at, now)
    heard = state.link.state == "up"
    alarmed = alarms(
        state.gpus,
        state.gpu_source,
        state.gpu_error,
        gpu_age if heard and state.gpu_error is None else None,
        _whole(state.unit.get("schedulers_expected")),
    )
    return Snapshot(
        host=state.host,
        at=now,
        link=state.link,
        gpus=state.gpus,
        gpu_source=state.gpu_source,
        service=_service(state, now),
        ages=Ages(gpu_age, _age(state.engine.at, now), _age(state.unit_at, now)),
        txn=dict(txn) if isinstance(txn, Mapping) else None,
        incidents=with_pattern(state.incidents),
        log=state.log,
        notes=(
            *state.notes,
            *_watch_notes(state.host, watched),
            *_outside_notes(state),
            *(alarm.text for alarm in alarmed),
            *_xid_notes(state),
        ),
        simulated=state.simulated,
        adopted=state.ddtune.get("adopted") is True,
        tick_s=state.tick_s,
        history=tuple(dict(line) for line in _list(state.ddtune.get("history")) if isinstance(line, Mapping)),
        boottime=_number(state.ddtune.get("boottime")),
        alarms=alarmed,
        unreadable=tuple(sorted(state.unreadable)),
        xids=None if "kernel" in state.unreadable and not state.xids.events else state.xids.events,
        watches=watched,
    )


def watches(ddtune: Mapping[str, Any]) -> tuple[Watch, ...]:
    """The headless watches that the host has heard of, by the host's own clock, the one that does most first.

    Those that were ended on purpose are not among them.
    """
    said = _mapping(ddtune.get("watch"))
    now, boottime = _number(ddtune.get("at")), _number(ddtune.get("boottime"))
    found = (_watch(_mapping(one), now, boottime) for one in (said, *_list(said.get("others"))))
    return tuple(sorted((one for one in found if one), key=_rank))


def _rank(one: Watch) -> tuple[bool, bool, int, float]:
    return one.mode == "dry", not one.alive, _MODES.index(one.mode), one.age_s


def _watch(said: Mapping[str, Any], now: float | None, boottime: float | None) -> Watch | None:
    at, every_s = _number(said.get("at")), _number(said.get("every_s"))
    if at is None or now is None or every_s is None:
        return None
    owner, heard = _mapping(said.get("owner")), _number(said.get("boottime"))
    # A wall clock that was set back would let a dead watch live.
    since_boot = boottime - heard if boottime is not None and heard is not None else 0.0
    age_s = max(0.0, now - at, since_boot)
    who = f"{_text(owner.get('who')) or 'somebody'} on {_text(owner.get('host')) or 'an unknown machine'}"
    mode = _text(said.get("mode"))
    return Watch(who, every_s, age_s, age_s <= WATCH_SILENT_S, mode if mode in _MODES else "acts")


def _watch_notes(host: str, found: tuple[Watch, ...]) -> list[str]:
    """Each watch that is missed. A dry run is missed by nobody, and stands in for nobody."""
    looked_for = any(one.alive and one.mode == "acts" for one in found)
    notes = []
    for one in found:
        if one.alive or one.mode == "dry":
            continue
        silent = f"the ddtune watch of {one.who} has not been heard of for {one.age_s:.0f} s"
        alone = "" if looked_for else ", and nobody goes back on a late hang"
        notes.append(f"{silent}: it is dead or cut off{alone}; start ddtune watch {host} again.")
    return notes


def facts(state: State, now: float) -> Facts:
    """What the word for the service's health rests on at ``now``."""
    props = _mapping(state.unit.get("props"))
    begin = run_began(state)
    served = any(line.kind in _SERVED for line in state.since_start)
    engine = state.engine
    fresh = engine.scrapes or engine.loads or (_age(engine.at, now) or 0.0) <= FRESH_S
    reading = engine.reading if fresh else None
    host_now = now - state.clock_offset_s
    start = state.start
    return Facts(
        unit_age=_age(state.unit_at, now),
        active=_text(props.get("ActiveState")),
        sub=_text(props.get("SubState")),
        schedulers=_whole(state.unit.get("schedulers")),
        expected=_whole(state.unit.get("schedulers_expected")),
        had_all=state.run.had_all or served,
        was_open=state.run.was_open or served,
        was_ready=state.run.was_ready or served,
        port=state.api.port,
        ready=state.api.status,
        answer_age=_age(state.api.answered_at, now),
        running=reading.running if reading else None,
        moved_age=_age(state.engine.moved_at, now),
        busy_age=_age(state.engine.running_since, now),
        proof_age=_age(state.engine.proof_at, now),
        fatal=begin is not None and any(incident.at >= begin for incident in state.incidents),
        waiting=reading.waiting if reading else None,
        compiled_age=_age(state.compiled_at, host_now),
        stall=state.stall[1] if state.stall and host_now - state.stall[0] <= STALL_SHOWN_S else None,
        phase=start.phase.value if start and start.fired_up_at is None else None,
        still_s=start.stalled_s(host_now) if start and start.fired_up_at is None else None,
    )


def _service(state: State, now: float) -> ServiceReading:
    props = _mapping(state.unit.get("props"))
    running, stable = _mapping(state.ddtune.get("running")), _mapping(state.ddtune.get("stable"))
    previous = _mapping(state.ddtune.get("previous"))
    reading = state.engine.reading or EngineReading(at=0.0)
    argv = state.unit.get("argv")
    known = facts(state, now)
    health, why = judge(known)
    return ServiceReading(
        unit=_text(state.unit.get("name")) or _text(state.hello.get("unit")),
        state=_text(props.get("ActiveState")),
        sub_state=_text(props.get("SubState")),
        health=health,
        health_why=why,
        last_proof_s=_age(state.engine.proof_at, now),
        profile=_text(running.get("profile")),
        release=_text(running.get("release")),
        standing=_standing(state.ddtune),
        stable_profile=_text(stable.get("profile")),
        previous_profile=_text(previous.get("profile")),
        accept_length=reading.accept_length,
        tokens_per_s=reading.tokens_per_s,
        running=reading.running,
        queued=reading.queued,
        max_running=reading.max_running,
        kv_usage=reading.kv_usage,
        cache_hit=reading.cache_hit,
        ttft_p50_s=reading.ttft_p50_s,
        ttft_p95_s=reading.ttft_p95_s,
        itl_p50_s=reading.itl_p50_s,
        itl_p95_s=reading.itl_p95_s,
        graphs_in_use=reading.graphs_in_use,
        graph_share=reading.graph_share,
        requests_total=reading.requests_total,
        main_pid=_whole(props.get("MainPID")) or None,
        invocation=_text(props.get("InvocationID")),
        restarts=_whole(props.get("NRestarts")),
        argv=tuple(str(one) for one in argv) if isinstance(argv, list) else (),
        schedulers=_whole(state.unit.get("schedulers")),
        schedulers_expected=_whole(state.unit.get("schedulers_expected")),
        accept_source=reading.accept_source,
        frozen=reading.frozen,
        phase=known.phase if health == "starting" else None,
        engine_version=state.info.version if state.info else None,
        model=state.info.model if state.info and state.info_run == _text(props.get("InvocationID")) else None,
        launched=_flag(state.ddtune.get("launched")),
        settled=state.api.port is not None and not reading.awaits,
    )


def _standing(ddtune: Mapping[str, Any]) -> str | None:
    """Of the release that runs; None where none is known to."""
    release = _text(_mapping(ddtune.get("running")).get("release"))
    if ddtune.get("adopted") is not True or release is None:
        return None
    return standing.of(release, ddtune, now=_number(ddtune.get("at")))


def _outside_notes(state: State) -> list[str]:
    """What somebody has changed of the unit's own files since ddtune took them as they were."""
    found = [text for text in map(_text, _list(state.ddtune.get("outside"))) if text]
    doctor = f"ddtune doctor {state.host} says who and what to do"
    return [f"the service is not written down as it was adopted: {'; '.join(found)}; {doctor}."] if found else []


def _xid_notes(state: State) -> list[str]:
    """A sentence for each of the newest Xids that are not a restart's own noise."""
    told = [event for event in state.xids.events if event.blames != "restart"][-XIDS_NOTED:]
    gpus = by_pci(state.gpus)
    return [f"{xid_sentence(event, gpus)}." for event in told]


def _age(at: float | None, now: float) -> float | None:
    return None if at is None else max(0.0, now - at)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _whole(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() else None
