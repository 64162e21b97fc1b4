"""ddtune's readers on what real servers said and on what the simulated engine says: both must be read alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ddtune.engine import log
from ddtune.engine.fatal import fatal_cause
from ddtune.engine.incidents import classify
from ddtune.engine.model import LogLine, Phase
from ddtune.engine.phases import phase_after
from tests.contract import held

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


SPECULATE = ("0.5.17", "tree")
engines = pytest.mark.parametrize("engine", ["0.5.17", "0.5.23", "tree", "plain"])


@engines
def test_loads(engine: str, body: Body) -> None:
    held.loads(body(engine, "v1_loads"))


@engines
def test_metrics(engine: str, body: Body) -> None:
    held.scrape(body(engine, "metrics"), engine in SPECULATE)


@engines
def test_server_info(engine: str, body: Body) -> None:
    held.info(body(engine, "server_info"))


@engines
def test_a_completion(engine: str, body: Body) -> None:
    held.completion(body(engine, "generate"), engine in SPECULATE)


@pytest.mark.parametrize("engine", ["0.5.23", "tree", "plain"])
def test_a_chat(engine: str, body: Body) -> None:
    held.chat(body(engine, "chat"))


@pytest.mark.parametrize("engine", ["0.5.23", "tree", "plain"])
@pytest.mark.parametrize("name", ["bad_request", "too_long"])
def test_a_refused_request(engine: str, name: str, body: Body) -> None:
    held.refusal(body(engine, name))


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


@pytest.mark.parametrize(
    ("death", "cause"),
    [
        ("budget 64", "cublas_error"),
        ("budget 12", "illegal_memory_access"),
        ("oom_weights", "oom_weights"),
        ("oom_graphs", "oom_graph_capture"),
        ("bad_exit", "oom_weights"),
    ],
)
def test_a_simulated_death_has_its_cause(death: str, cause: str, deaths: dict[str, str]) -> None:
    found = classify(lines_of(deaths[death]))
    assert found is not None
    assert found.cause == cause
