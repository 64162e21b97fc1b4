from __future__ import annotations

from functools import reduce

import pytest

from ddtune.engine.log import parse
from ddtune.engine.model import LogLine, Phase
from ddtune.engine.phases import Start, phase_after
from tests.unit.engine_samples import LOGS, log


def run(lines: list[LogLine]) -> Start:
    return reduce(Start.after, lines, Start(began_at=0.0))


def test_a_real_start_with_graphs() -> None:
    start = run(log("ngram16_g"))
    assert list(start.entered) == [Phase.WEIGHTS, Phase.GRAPHS, Phase.WARMUP]
    assert start.phase is Phase.WARMUP
    began = [start.entered[phase] for phase in (Phase.WEIGHTS, Phase.GRAPHS, Phase.WARMUP)]
    assert began == [pytest.approx(seconds, abs=0.3) for seconds in (47.4, 51.7, 60.8)]


@pytest.mark.parametrize("name", ["startup-0.5.17", "startup-0.5.23", "ngram16_nog"])
def test_a_start_without_graphs(name: str) -> None:
    start = run(log(name))
    assert list(start.entered) == [Phase.WEIGHTS, Phase.WARMUP]


def test_a_start_that_dies_in_weights() -> None:
    assert run(log("oom_start")).phase is Phase.WEIGHTS


@pytest.mark.parametrize("name", LOGS)
def test_phases_never_go_back(name: str) -> None:
    order = list(Phase)
    phase = Phase.LAUNCH
    for line in log(name):
        after = phase_after(phase, line)
        assert order.index(after) >= order.index(phase)
        assert after is not Phase.READY
        phase = after


def test_a_drafts_weights_after_graphs_stay_in_graphs() -> None:
    start = run(
        [
            parse("[2026-01-01 00:00:00 TP0] Capture target verify CUDA graph begin. backend=full", at=1),
            parse("[2026-01-01 00:00:00 TP0] Load weight begin. avail mem=1 GB", at=2),
        ]
    )
    assert start.phase is Phase.GRAPHS


def test_only_news_is_progress() -> None:
    start = run([parse("Load weight begin. avail mem=1 GB", at=10.0)])
    again = start.after(parse("Load weight begin. avail mem=1 GB", at=50.0))
    probe = again.after(parse('INFO:     127.0.0.1:5 - "GET /model_info HTTP/1.1" 200 OK', at=60.0))
    complaint = probe.after(parse("Health check failed. Server couldn't get a response", at=70.0))
    kernel = complaint.after(parse("nvidia: something", at=80.0, source="kernel"))
    assert kernel.stalled_s(110.0) == 100.0
    moved = kernel.after(parse("Multi-thread loading shards: 10% Completed | 1/10", at=100.0))
    assert moved.stalled_s(110.0) == 10.0
    assert Start(began_at=5.0).stalled_s(15.0) == 10.0


def test_a_long_compilation_is_progress_while_it_speaks() -> None:
    texts = [f"DeepGEMM warmup: {percent}%" for percent in range(100)]
    start = run(
        [parse(text, at=float(index * 8)) for index, text in enumerate(["Entering DeepGEMM JIT Pre-Compile", *texts])]
    )
    assert start.stalled_s(801.0) < 10
