"""What a real server on a GPU said that a reader would take wrongly: ddtune takes it rightly, and so does its sim."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ddtune.engine.ends import unasked
from ddtune.engine.exposition import Scrape, parse
from ddtune.engine.metrics import reading
from ddtune.engine.model import LogLine
from ddtune.onhost.load import read_answer
from tests.contract.conftest import Recorded, gauge

Sample = Callable[[str], str]
CONFIGS = {
    "ngram16_g_metrics_c1.txt": (1.0, True),
    "ngram16_g_metrics_c16.txt": (1.0, True),
    "ngram16_nog_metrics_c16.txt": (0.0, True),
    "nospec_g_metrics_c1.txt": (1.0, False),
}


@pytest.fixture
def scrape(sample: Sample) -> Callable[[str], Scrape]:
    return lambda name: parse(sample(f"0.5.17-h200/{name}"), 1.0)


@pytest.mark.parametrize(("name", "share"), [(name, share) for name, (share, _) in CONFIGS.items()])
def test_graphs_are_told_by_passes_while_the_gauge_lies(
    name: str, share: float, scrape: Callable[[str], Scrape], sample: Sample
) -> None:
    assert gauge(sample(f"0.5.17-h200/{name}")) == 0.0
    found = reading(None, scrape(name))
    assert (found.graph_share, found.graphs_in_use) == (share, share == 1.0)


def test_the_sims_gauge_lies_as_the_real_one_does(tree: Recorded, plain: Recorded) -> None:
    for engine, share in ((tree, 1.0), (plain, 0.0)):
        body = engine.bodies["metrics_after_prefill"]
        assert gauge(body) == 0.0
        found = reading(None, parse(body, 1.0))
        assert (found.graph_share, found.graphs_in_use) == (share, share == 1.0)


@pytest.mark.parametrize(("name", "speculates"), [(name, spec) for name, (_, spec) in CONFIGS.items()])
def test_a_series_that_does_not_exist_yet_is_no_zero(
    name: str, speculates: bool, scrape: Callable[[str], Scrape]
) -> None:
    now = scrape(name)
    found = reading(None, now)
    mode = "decode_none" if CONFIGS[name][0] else "decode_cuda_graph"
    assert now.total("cuda_graph_passes_total", mode=mode) is None
    if not speculates:
        assert found.accept_length is None


def test_the_servers_own_throughput_of_an_answer_is_not_to_be_used(sample: Sample) -> None:
    text = sample("0.5.17-h200/ngram16_g_gen.json")
    meta = json.JSONDecoder().raw_decode(text)[0]["meta_info"]
    assert meta["decode_throughput"] > 1e7
    assert meta["completion_tokens"] / meta["e2e_latency"] < 1000
    read = read_answer(200, text.encode().splitlines()[0])
    assert read["completion_tokens"] == meta["completion_tokens"]
    assert all(value < 1e6 for value in read.values() if isinstance(value, int | float)), read


def _line(text: str) -> LogLine:
    return LogLine(1.0, text, "unit", pid=1)


def test_an_orderly_stop_that_ends_with_kill_was_asked_for() -> None:
    ended = "sglang.service: Main process exited, code=killed, status=9/KILL"
    assert unasked([_line("Stopping sglang.service..."), _line(ended)]) is None
    assert unasked([_line(ended)]) == (0, "killed", 9)
