from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ddtune.live.journal import LOG_KEPT
from ddtune.live.picture import snapshot
from ddtune.live.reduce import reduce
from ddtune.live.snapshot import Snapshot
from ddtune.live.state import State
from tests.unit.engine_samples import text

Line = dict[str, Any]
ILLEGAL = "[2026-01-01 00:00:00 TP3] Scheduler hit an exception: CUDA error: an illegal memory access was encountered"


def _after(lines: Iterable[tuple[float, Line]], state: State | None = None) -> State:
    state = state or State("box", tick_s=1.0)
    for at, line in lines:
        state = reduce(state, {"at": at, **line}, at)
    return state


def _metrics(tokens: float, requests: float, running: int = 2) -> Line:
    return {
        "t": "metrics",
        "text": f'sglang:realtime_tokens_total{{mode="decode"}} {tokens}\nsglang:num_requests_total {requests}\n'
        f"sglang:num_running_reqs {running}\n",
    }


def _unit(pid: int = 7, invocation: str = "a", schedulers: int = 8, active: str = "active") -> Line:
    props = {"ActiveState": active, "SubState": "running", "MainPID": str(pid), "InvocationID": invocation}
    props["NRestarts"] = "0"
    return {
        "t": "unit",
        "name": "e.service",
        "props": props,
        "argv": ["x"],
        "schedulers": schedulers,
        "schedulers_expected": 8,
    }


def _ready(status: int | None = 200, port: str = "open") -> Line:
    return {"t": "ready", "status": status, "port": port}


def _log(*texts: str, at: float = 0.0, pid: int = 7, source: str = "unit") -> Line:
    entries = [{"at": at, "cursor": f"{text}{at}", "text": text, "priority": 6, "pid": pid} for text in texts]
    return {"t": "log", "source": source, "entries": entries}


def _word(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def _at(state: State, now: float) -> Snapshot:
    return snapshot(state, now)


def test_nothing_read_is_nothing_known() -> None:
    one = _at(State("box"), 5.0)
    assert (one.link.state, one.gpus, one.ages.gpus, one.service.health) == ("connecting", (), None, "unknown")
    assert one.service.running is None


def test_rates_are_over_a_window_and_on_the_engines_clock() -> None:
    state = State("box", clock_scale=10.0)
    state = _after([(float(at), _metrics(at * 3000.0, at)) for at in range(1, 12)], state)
    assert _at(state, 11.0).service.tokens_per_s == pytest.approx(300.0)
    assert len(state.engine.scrapes) <= 7
    still = _after([(float(at), _metrics(33000.0, 11)) for at in range(12, 19)], state)
    assert _at(still, 18.0).service.tokens_per_s == 0.0


def test_without_metrics_the_loads_say_what_runs() -> None:
    loads = {"loads": [{"num_running_reqs": 3, "num_waiting_reqs": 1, "max_running_requests": 8}]}
    one = _at(_after([(1.0, {"t": "loads", "body": loads})]), 3.0)
    assert (one.service.running, one.service.queued, one.service.max_running, one.ages.engine) == (3, 1, 8, 2.0)


def test_ages_grow_while_nothing_comes() -> None:
    state = _after([(1.0, {"t": "gpus", "via": "nvml", "gpus": [{"index": 0, "power_w": 5}]}), (2.0, _unit())])
    one = _at(state, 10.0)
    assert (one.ages.gpus, one.ages.unit, one.ages.engine) == (9.0, 8.0, None)
    assert one.gpus[0].power_w == 5
    assert _at(state, 60.0).service.health == "unknown"


def test_a_proof_is_a_completed_request() -> None:
    state = _after([(1.0, _unit()), (1.0, _ready()), (1.0, _metrics(0, 5)), (2.0, _metrics(100, 5))])
    assert _at(state, 2.0).service.last_proof_s is None
    assert _at(state, 2.0).service.health == "serving"
    state = _after([(3.0, _unit()), (3.0, _metrics(200, 6)), (4.0, _metrics(200, 6, running=0))], state)
    assert _at(state, 5.0).service.last_proof_s == 2.0
    state = _after([(20.0, _unit()), (20.0, _ready()), (20.0, _metrics(200, 6, running=0))], state)
    assert (_at(state, 20.0).service.health, _at(state, 20.0).service.last_proof_s) == ("idle", 17.0)


def test_a_new_run_of_the_process_forgets_the_old_numbers() -> None:
    state = _after([(1.0, _unit()), (1.0, _ready()), (1.0, _metrics(0, 0)), (2.0, _metrics(300, 1))])
    assert _at(state, 2.0).service.tokens_per_s == 300.0
    state = _after([(3.0, _unit(pid=8, invocation="b", schedulers=1)), (3.0, _ready(None, "refused"))], state)
    service = _at(state, 3.0).service
    assert (service.tokens_per_s, service.running, service.health, service.main_pid) == (None, None, "starting", 8)
    assert service.last_proof_s == 1.0
    state = _after([(4.0, _unit(pid=8, invocation="b")), (4.0, _ready(503))], state)
    assert _at(state, 4.0).service.health == "starting"
    state = _after([(5.0, _unit(pid=8, invocation="b", schedulers=7)), (5.0, _ready(200))], state)
    assert _at(state, 5.0).service.health == "dead"


def test_a_frozen_port_after_a_fatal_line_is_dead_before_the_process_ends() -> None:
    state = _after([(1.0, _unit()), (1.0, _ready()), (1.0, _metrics(0, 0)), (2.0, _metrics(300, 0))])
    state = _after([(3.0, _log(ILLEGAL, at=3.0)), (7.0, _unit()), (7.0, _ready(None, "silent"))], state)
    one = _at(state, 7.0)
    assert one.service.health == "dead"
    assert [(incident.cause, incident.rank) for incident in one.incidents] == [("illegal_memory_access", "TP3")]


def test_each_run_has_its_own_incident_and_the_fault_of_an_old_one_does_not_mark_a_new_one() -> None:
    state = _after(
        [
            (1.0, _log(ILLEGAL, at=1.0)),
            (2.0, _log("Started e.service - engine.", at=2.0, pid=1)),
            (3.0, _log("Decode batch, #running-req: 1", at=3.0)),
            (4.0, _log("NVRM: Xid (PCI:0000:1b:00): 31, x", at=4.0, source="kernel")),
            (5.0, _log("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB", at=5.0)),
            (6.0, _log("Started e.service - engine.", at=6.0, pid=1)),
            (7.0, _unit()),
            (7.0, _ready(None, "refused")),
        ]
    )
    one = _at(state, 7.0)
    assert [incident.cause for incident in one.incidents] == ["illegal_memory_access", "oom_serving"]
    assert one.service.health == "starting"
    assert state.cursors == {"unit": "Started e.service - engine.6.0", "kernel": "NVRM: Xid (PCI:0000:1b:00): 31, x4.0"}


def test_the_tail_is_bounded_safe_and_shows_gaps() -> None:
    state = _after([(1.0, _log(*[f"line {_word(place)}" for place in range(LOG_KEPT + 50)]))])
    state = _after([(2.0, {"t": "gap", "source": "unit"}), (2.0, _log("\x1b[31mred\x07 [/bold]\u202e"))], state)
    tail = _at(state, 2.0).log
    assert len(tail) == LOG_KEPT
    assert "left out" in tail[-2].text
    assert tail[-1].text == "red [/bold]"


def test_an_edit_of_the_units_files_is_a_note_while_it_stands() -> None:
    edited = {"t": "ddtune", "adopted": True, "outside": ["/x was edited", "/y was added"]}
    (note,) = _at(_after([(1.0, edited)]), 1.0).notes
    assert note.startswith(
        "the service is not written down as it was adopted: /x was edited; /y was added; ddtune doctor"
    )
    assert _at(_after([(1.0, edited), (2.0, {**edited, "outside": []})]), 2.0).notes == ()


def test_notes_are_kept_once_and_a_new_link_starts_afresh() -> None:
    state = _after([(1.0, {"t": "note", "text": "no journal."})] * 3)
    assert _at(state, 1.0).notes == ("no journal.",)
    state = _after([(2.0, {"t": "gpus", "via": "none", "gpus": [], "error": "no driver"})] * 2, state)
    assert _at(state, 1.0).notes == ("no journal.", "no GPU reading: no driver.")
    assert _at(_after([(3.0, {"t": "hello"})], state), 3.0).notes == ()


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"t": 7},
        {"t": "gpus", "at": "x"},
        {"t": "gpus", "gpus": [None, {"index": "x", "throttle": {}}]},
        {"t": "metrics"},
        {"t": "metrics", "text": "\x00 {{{ nan"},
        {"t": "loads", "body": [1, 2]},
        {"t": "ready", "status": "x", "port": 3},
        {"t": "unit", "props": 3},
        {"t": "unit", "props": {"MainPID": "x"}, "argv": 3, "schedulers": "y"},
        {"t": "ddtune", "txn": 3, "running": [], "stable": "x", "history": 3, "adopted": 1},
        {"t": "ddtune", "adopted": True, "running": {"release": "r"}, "history": [3], "site": 1, "probation": {}},
        {"t": "log", "entries": [3, {"at": 1.0}, {"text": "x"}]},
        {"t": "log"},
        {"t": "gap", "at": None},
        {"t": "note"},
        {"t": "hello", "unit": 3},
    ],
)
def test_an_odd_line_breaks_nothing(line: Line) -> None:
    state = reduce(State("box"), line, 1.0)
    assert snapshot(state, 2.0).host == "box"


def test_a_real_scrape_becomes_a_reading() -> None:
    line = {"t": "metrics", "text": text("metrics-0.5.23-load.txt")}
    service = _at(_after([(1.0, line)]), 1.0).service
    assert (service.running, service.queued) == (8, 4)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "adopted"),
        ({"adopted": False}, None),
        ({"running": None}, None),
        ({"quarantine": ["r"]}, "failed"),
        ({"txn": {"candidate": "r", "stable": "s", "settled": False}}, "unproven"),
        ({"txn": {"candidate": "r", "stable": "s", "settled": True}}, "adopted"),
        ({"txn": {"candidate": "r", "stable": "r", "settled": False}}, "adopted"),
        ({"probation": {"release": "r", "until": 50.0}}, "probation"),
        ({"probation": {"release": "r", "until": 5.0}}, "proven"),
        ({"probation": {"release": "q", "until": 50.0}}, "adopted"),
        ({"history": [{"event": "committed", "to": {"release": "r"}, "at": 10.0 - 4 * 86400}]}, "proven"),
        ({"history": [{"event": "committed", "to": {"release": "r"}, "at": 9.0}]}, "unproven"),
        ({"running": {"release": "other"}}, "unproven"),
        ({"site": {"standing": "unproven"}}, "unproven"),
        ({"site": {"build": "new"}, "running": {"release": "r", "meta": {"build": "old"}}}, "unproven"),
        ({"site": {"build": "old"}, "running": {"release": "r", "meta": {"build": "old"}}}, "adopted"),
    ],
)
def test_the_standing_of_what_runs(changed: Line, expected: str | None) -> None:
    line = {"t": "ddtune", "at": 10.0, "adopted": True, "running": {"release": "r"}, "stable": {"release": "r"}}
    assert _at(_after([(10.0, {**line, **changed})]), 10.0).service.standing == expected


@pytest.mark.parametrize(("pid", "cause"), [("pid=41, ", None), ("", None), ("pid=7, ", "xid_app")])
def test_what_the_graph_canary_did_to_a_gpu_is_no_incident_of_the_service(pid: str, cause: str | None) -> None:
    xid = f"NVRM: Xid (PCI:0000:1b:00): 31, {pid}name=python3, MMU Fault"
    state = _after(
        [
            (1.0, _unit()),
            (1.5, _log("[2026-01-01 00:00:00] server_args=ServerArgs(x)", at=1.5)),
            (2.0, {"t": "ddtune", "adopted": True, "canary": {"pids": [41], "began": 2.0, "ended": 602.0}}),
            (4.0, _log(xid, at=4.0, source="kernel")),
        ]
    )
    found = [incident.cause for incident in _at(state, 5.0).incidents]
    assert found == ([] if cause is None else [cause])


def test_behind_a_closed_port_the_log_of_the_engine_that_is_gone_is_no_reading() -> None:
    decode = "[2026-01-01 00:00:00 TP0] Decode batch, #running-req: 3, gen throughput (token/s): 300.0, #queue-req: 0"
    state = _after([(1.0, _unit()), (1.0, _ready()), (2.0, _log(decode, at=2.0))])
    assert _at(state, 2.0).service.tokens_per_s == 300.0
    state = _after([(3.0, _ready(None, "refused")), (4.0, _log("Shutting down", at=4.0))], state)
    one = _at(state, 4.0)
    assert (one.service.tokens_per_s, one.service.running, one.ages.engine) == (None, None, None)
