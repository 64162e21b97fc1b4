from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddtune.engine.exposition import Sample, Scrape, parse
from ddtune.engine.metrics import quantile, reading
from ddtune.engine.server_info import Loads, read_loads
from tests.unit.engine_samples import text


def scrape(body: str, at: float = 0.0) -> Scrape:
    return parse(body, at)


def line(name: str, value: float, **labels: str) -> str:
    inner = ",".join(f'{key}="{label}"' for key, label in labels.items())
    return f"sglang:{name}{{{inner}}} {value}\n"


def test_a_nan_costs_only_itself() -> None:
    body = text("metrics-0.5.23-load.txt")
    assert "fwd_occupancy" in body
    now = reading(
        None, scrape(body + 'sglang:token_usage{dp_rank="1"} NaN\nthis is {no line\nsglang:gen_throughput{ 1\n')
    )
    assert (now.running, now.queued, now.kv_usage) == (8, 4, 0.05)


def test_numbers_without_a_finite_sum_are_not_available() -> None:
    ranks = "".join(line(name, 1e308, dp_rank=rank) for name in ("num_running_reqs", "cache_hit_rate") for rank in "01")
    now = reading(None, scrape(ranks + line("num_queue_reqs", 4)))
    assert (now.running, now.cache_hit, now.queued) == (None, None, 4)
    loads = read_loads({"loads": [{"num_running_reqs": 1e308, "gen_throughput": 1e308, "num_waiting_reqs": 2}] * 2})
    assert loads is not None
    assert (loads.running, loads.tokens_per_s, loads.queued) == (None, None, 4)


def test_both_spellings() -> None:
    body = text("ngram16_g_metrics_c16.txt")
    colon, underscore = scrape(body), scrape(body.replace("sglang:", "sglang_"))
    assert colon == underscore
    assert reading(None, colon).running == 12


def test_names_of_another_engine_are_said_and_not_zero() -> None:
    other = scrape('vllm:num_requests_running{model_name="m"} 3.0\n')
    assert other.unknown_names
    assert reading(None, other).running is None
    assert not scrape(text("metrics-0.5.23.txt")).unknown_names
    assert not scrape("").unknown_names


def test_tensor_parallel_ranks_say_the_same_number() -> None:
    labels = {"model_name": "m", "engine_type": "unified", "pp_rank": "0", "moe_ep_rank": "0"}
    tp = "".join(line("gen_throughput", 100, tp_rank=str(rank), **labels) for rank in range(4))
    assert scrape(tp).total("gen_throughput") == 100
    dp = "".join(line("gen_throughput", 100, dp_rank=str(rank), tp_rank="0", **labels) for rank in range(4))
    assert scrape(dp).total("gen_throughput") == 400
    both = "".join(
        line("gen_throughput", 50 + dp, extra="x", tp_rank=str(tp), dp_rank=str(dp)) for tp in (1, 0) for dp in (0, 1)
    )
    assert scrape(both).total("gen_throughput") == 101


def test_labels_may_hold_anything() -> None:
    hard = 'sglang:num_requests_total{model_name="/models/a \\"b\\" {c}, d",http_status="200"} 5.0\n'
    assert scrape(hard).total("num_requests_total") == 5


def test_rates_from_counters() -> None:
    before = scrape(text("ngram16_g_metrics_c1.txt"), at=100)
    after = scrape(text("ngram16_g_metrics_c16.txt"), at=110)
    now = reading(before, after)
    assert now.tokens_per_s == pytest.approx((53145 - 6239) / 10)
    assert now.accept_length == pytest.approx((50179 - 5827) / (6904 - 1251))
    assert now.graphs_in_use is True
    assert now.itl_p50_s is not None
    assert 0 < now.itl_p50_s < 0.02
    assert reading(before, after, clock_scale=10).tokens_per_s == pytest.approx((53145 - 6239) / 100)


def test_without_an_earlier_scrape_the_gauge_speaks() -> None:
    now = reading(None, scrape(text("ngram16_g_metrics_c16.txt")))
    assert now.tokens_per_s == pytest.approx(8755.99, abs=0.01)
    assert now.accept_length == pytest.approx(7.04, abs=0.01)
    assert now.ttft_p50_s is None


def test_an_idle_engine_makes_no_tokens_whatever_its_gauge_says() -> None:
    body = line("gen_throughput", 812.3) + line("num_running_reqs", 0) + line("realtime_tokens_total", 5, mode="decode")
    assert reading(None, scrape(body)).tokens_per_s == 0
    assert reading(scrape(body, 0), scrape(body, 60)).tokens_per_s == 0
    spec = body + line("spec_accept_length", 4.5) + line("spec_num_draft_tokens", 9)
    assert reading(None, scrape(spec)).accept_length is None


def test_a_restart_makes_no_negative_and_no_huge_rate() -> None:
    def at(tokens: float, when: float) -> Scrape:
        return scrape(
            line("generation_tokens_total", tokens) + line("num_running_reqs", 1) + line("gen_throughput", 70), when
        )

    assert reading(at(1_200_000, 0), at(350, 5)).tokens_per_s == 70
    assert reading(at(350, 5), at(1050, 15)).tokens_per_s == 70


def test_a_request_counted_at_its_end_is_no_stall_before() -> None:
    body = line("generation_tokens_total", 350) + line("num_running_reqs", 1) + line("gen_throughput", 70)
    assert reading(scrape(body, 0), scrape(body, 5)).tokens_per_s == 70


def test_a_stall_is_seen_where_each_step_is_counted() -> None:
    body = line("realtime_tokens_total", 350, mode="decode") + line("num_running_reqs", 3) + line("gen_throughput", 70)
    assert reading(scrape(body, 0), scrape(body, 5)).tokens_per_s == 0


@pytest.mark.parametrize(
    ("drafts", "length", "running", "wanted"),
    [
        (0, 0.0, 4, None),
        (9, 1.0, 4, 1.0),
        (9, 0.0, 4, None),
        (9, 4.48, 4, 4.48),
        (9, 4.48, 0, None),
        (0, 4.48, 4, None),
    ],
)
def test_accept_length_off_collapsed_and_idle(drafts: int, length: float, running: int, wanted: float | None) -> None:
    body = (
        line("spec_num_draft_tokens", drafts) + line("spec_accept_length", length) + line("num_running_reqs", running)
    )
    assert reading(None, scrape(body)).accept_length == wanted


def test_speculation_off_has_no_accept_length() -> None:
    assert reading(None, scrape(text("nospec_g_metrics_c1.txt"))).accept_length is None


def test_graphs() -> None:
    assert reading(None, scrape(text("ngram16_nog_metrics_c16.txt"))).graphs_in_use is False
    assert reading(None, scrape(text("ngram16_g_metrics_c16.txt"))).graphs_in_use is True
    assert reading(None, scrape(line("num_running_reqs", 1))).graphs_in_use is None
    passes = line("cuda_graph_passes_total", 100, mode="decode_cuda_graph")
    before = scrape(passes, 0)
    fell_back = scrape(passes + line("cuda_graph_passes_total", 20, mode="decode_none"), 1)
    assert reading(before, fell_back).graphs_in_use is False


def test_loads_fill_what_metrics_lack() -> None:
    loads = read_loads(json.loads(text("loads-0.5.17.json")))
    now = reading(None, scrape(""), loads=loads)
    assert (now.running, now.queued, now.max_running, now.cache_hit) == (16, 0, 48, 0.9524)
    assert now.tokens_per_s == 8755.99
    metrics_first = reading(None, scrape(line("num_running_reqs", 3)), loads=Loads(running=9))
    assert metrics_first.running == 3


def test_nothing_is_none() -> None:
    now = reading(None, scrape(""))
    assert {value for key, value in vars(now).items() if key != "at"} <= {None, ()}


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=200), st.floats(0.01, 0.99))
def test_quantiles_lie_in_the_right_bucket(values: list[float], share: float) -> None:
    bounds = [1.0, 5.0, 25.0, 125.0, 625.0, math.inf]
    cumulative = {bound: float(sum(value <= bound for value in values)) for bound in bounds}
    found = quantile(cumulative, share)
    assert found is not None
    exact = sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
    upper = next(bound for bound in bounds if exact <= bound)
    lower = max([0.0, *(bound for bound in bounds if bound < upper)])
    assert lower <= found <= upper


def test_no_counts_have_no_quantile() -> None:
    assert quantile({}, 0.5) is None
    assert quantile({1.0: 0.0, math.inf: 0.0}, 0.5) is None


@given(st.text(max_size=200))
def test_any_text_is_read(body: str) -> None:
    now = reading(None, scrape(body))
    assert now.tokens_per_s is None or math.isfinite(now.tokens_per_s)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1000)), max_size=12))
def test_order_of_series_does_not_matter(series: list[tuple[int, int, int]]) -> None:
    unique = {(tp, dp): value for tp, dp, value in series}
    samples = [Sample({"tp_rank": str(tp), "dp_rank": str(dp)}, float(value)) for (tp, dp), value in unique.items()]
    one = Scrape(0, {"num_running_reqs": tuple(samples)}, len(samples))
    other = replace(one, samples={"num_running_reqs": tuple(reversed(samples))})
    assert one.total("num_running_reqs") == other.total("num_running_reqs")


def test_a_series_is_read_alike_at_each_scrape_whatever_stands_behind_its_value() -> None:
    text = 'sglang:num_running_reqs{name="a } b",x="\\"q\\""} 3\nsglang:num_queue_reqs 4 1395066363000\n'
    for _ in range(2):
        found = parse(text, 1.0)
        assert found.samples["num_running_reqs"][0].labels == {"name": "a } b", "x": '"q"'}
        assert (found.total("num_running_reqs"), found.total("num_queue_reqs")) == (3.0, 4.0)
    for odd in ("3_0", "x", "", "1 2 3", "nan", "inf"):
        assert parse(f"sglang:num_running_reqs {odd}\n", 1.0).samples == {}
