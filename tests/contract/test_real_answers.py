"""ddtune's readers on what real servers said and on what the simulated engine says: both must be read alike."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ddtune.engine import log, metrics, server_info
from ddtune.engine.fatal import fatal_cause
from ddtune.engine.incidents import classify
from ddtune.engine.model import LogLine, Phase
from ddtune.engine.phases import phase_after
from ddtune.onhost import load

Sample = Callable[[str], str]
Body = Callable[[str, str], str]

OLD = {
    "metrics": "ngram16_g_metrics_c16.txt",
    "v1_loads": "ngram16_g_loads_c16.json",
    "server_info": "ngram16_g_idle_get_server_info.json",
    "generate": "ngram16_g_gen.json",
}
BUSY = {"metrics": "metrics_under_load.body", "v1_loads": "v1_loads_under_load.body"}


@pytest.fixture
def body(sample: Sample, request: pytest.FixtureRequest) -> Body:
    """``body(engine, name)``: of a real server by its version, or of the simulated engine ``tree`` or ``plain``."""

    def find(engine: str, name: str) -> str:
        if engine == "0.5.17":
            return sample(f"0.5.17-h200/{OLD[name]}")
        if engine == "0.5.23":
            return sample(f"0.5.23/{BUSY.get(name, f'{name}.body')}")
        return str(request.getfixturevalue(engine).bodies[name])

    return find


def first_object(text: str) -> object:
    """The first JSON value of a body, which some samples have more lines behind."""
    return json.JSONDecoder().raw_decode(text.lstrip())[0]


engines = pytest.mark.parametrize("engine", ["0.5.17", "0.5.23", "tree", "plain"])


@engines
def test_loads(engine: str, body: Body) -> None:
    read = server_info.read_loads(first_object(body(engine, "v1_loads")))
    assert read is not None
    assert read.running is not None
    assert read.running >= 0
    assert read.queued is not None
    assert read.max_running
    assert read.kv_usage is not None
    assert 0 <= read.kv_usage <= 1
    assert read.timestamp is not None
    assert read.timestamp > 1.7e9, "seconds since the epoch"


@engines
def test_metrics(engine: str, body: Body) -> None:
    text = body(engine, "metrics")
    read = metrics.reading(None, metrics.parse(text, 100.0))
    assert read.running is not None
    assert read.queued is not None
    assert read.kv_usage is not None
    assert read.requests_total is not None
    assert read.generation_tokens_total is not None
    if engine in ("0.5.17", "tree"):
        assert read.accept_length is not None
        assert read.accept_length >= 1
    else:
        assert read.accept_length is None, "it does not speculate"


@engines
def test_server_info(engine: str, body: Body) -> None:
    read = server_info.read_server_info(first_object(body(engine, "server_info")))
    assert read is not None
    assert read.version is not None
    assert read.version.startswith("0.5.")
    assert read.max_running
    assert read.tp_size
    assert (read.algorithm is not None) == (engine in ("0.5.17", "tree"))


@engines
def test_a_completion(engine: str, body: Body) -> None:
    read = load.read_answer(200, json.dumps(first_object(body(engine, "generate"))).encode())
    assert "error" not in read
    assert read["text"]
    assert len(read["token_ids"]) == read["completion_tokens"] > 0
    assert read["finish_reason"] in ("stop", "length")
    assert (read["verify_calls"] is not None) == (engine in ("0.5.17", "tree"))


@pytest.mark.parametrize("engine", ["0.5.23", "tree", "plain"])
def test_a_chat(engine: str, body: Body) -> None:
    read = load.read_answer(200, json.dumps(first_object(body(engine, "chat"))).encode())
    assert "error" not in read
    assert read["text"]
    assert read["completion_tokens"] > 0


@pytest.mark.parametrize("engine", ["0.5.23", "tree", "plain"])
@pytest.mark.parametrize("name", ["bad_request", "too_long"])
def test_a_refused_request(engine: str, name: str, body: Body) -> None:
    read = load.read_answer(400, json.dumps(first_object(body(engine, name))).encode())
    assert read["error_kind"] == "http"
    assert read["error"] not in ("HTTP 400: no message", "HTTP 400: ")


def lines_of(text: str) -> list[LogLine]:
    return [log.parse(line, at=float(number)) for number, line in enumerate(text.splitlines())]


@pytest.mark.parametrize(
    ("name", "graphs"),
    [("0.5.17-h200/ngram16_g.log", True), ("0.5.17-h200/nospec_g.log", True), ("0.5.23/startup.log", False)],
)
def test_a_real_start(name: str, graphs: bool, sample: Sample) -> None:
    _starts(lines_of(sample(name)), graphs)


@pytest.mark.parametrize(("engine", "graphs"), [("tree", True), ("plain", False)])
def test_a_simulated_start(engine: str, graphs: bool, request: pytest.FixtureRequest) -> None:
    text = request.getfixturevalue(engine).log
    served = text.index("The server is fired up")
    _starts(lines_of(text[: text.index("\n", served)]), graphs)


def _starts(lines: list[LogLine], graphs: bool) -> None:
    phases = [Phase.LAUNCH]
    for line in lines:
        phases.append(phase_after(phases[-1], line))
        assert fatal_cause(line.text) is None, line.text
        if "fired up" in line.text:
            break
    expected = [Phase.LAUNCH, Phase.WEIGHTS, Phase.GRAPHS, Phase.WARMUP]
    assert list(dict.fromkeys(phases)) == (expected if graphs else [p for p in expected if p is not Phase.GRAPHS])


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("0.5.23/no_memory.log", "oom_weights"),
        ("0.5.23/killed_scheduler.log", "engine_dead"),
        ("0.5.17-h200/kill9.log", "engine_dead"),
        ("0.5.17-h200/oom_start.log", "oom_weights"),
        ("0.5.17-h200/oom_capture.log", "oom_graph_capture"),
        ("0.5.17-h200/fail_flag.log", "bad_flags"),
    ],
)
def test_a_real_death_has_its_cause(name: str, cause: str, sample: Sample) -> None:
    found = classify(lines_of(sample(name)))
    assert found is not None
    assert found.cause == cause
