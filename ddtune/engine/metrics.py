"""From two scrapes of ``/metrics`` to one reading of the engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

from ddtune.engine.exposition import Scrape, parse
from ddtune.engine.model import EngineReading
from ddtune.engine.server_info import Loads
from ddtune.engine.sums import mean, total, whole

__all__ = ["parse", "quantile", "reading"]

_ACCEPT_FLOOR = 0.95


# What keeps its last value when nothing runs.
_HELD = ("cache_hit",)


def reading(
    prev: Scrape | None,
    now: Scrape,
    clock_scale: float = 1.0,
    loads: Loads | None = None,
    log: EngineReading | None = None,
) -> EngineReading:
    """One reading. ``prev`` is an earlier scrape of the same engine, for rates; ``loads`` and then ``log``, what the
    engine's log says, fill what metrics lack.

    ``clock_scale`` is how many of the engine's seconds pass in one of ours: counters advance on our clock, gauges are
    on the engine's own. A counter that went back means a restart, and its rate is not taken from it.
    """
    if prev is not None and (now.at <= prev.at or _restarted(prev, now)):
        prev = None
    log = log or EngineReading(now.at)
    running = _first(whole(now.total("num_running_reqs")), loads.running if loads else None, log.running)
    length, source = _accept_length(prev, now, running, log)
    cache_hit = _first(now.mean("cache_hit_rate"), loads.cache_hit if loads else None)
    active = now.series("http_requests_active", method="POST")
    graphs = _graph_share(prev, now)
    return EngineReading(
        at=now.at,
        tokens_per_s=_first(_tokens_per_s(prev, now, clock_scale, running, loads), log.tokens_per_s),
        accept_length=length,
        accept_source=source,
        running=running,
        waiting=whole(total(sample.value for sample in active)),
        frozen=() if running or cache_hit is None else _HELD,
        queued=_first(whole(now.total("num_queue_reqs")), loads.queued if loads else None, log.queued),
        max_running=loads.max_running if loads else None,
        kv_usage=_first(now.largest("token_usage"), loads.kv_usage if loads else None, log.kv_usage),
        cache_hit=cache_hit,
        ttft_p50_s=_percentile(prev, now, "time_to_first_token_seconds", 0.50),
        ttft_p95_s=_percentile(prev, now, "time_to_first_token_seconds", 0.95),
        itl_p50_s=_percentile(prev, now, "inter_token_latency_seconds", 0.50),
        itl_p95_s=_percentile(prev, now, "inter_token_latency_seconds", 0.95),
        graphs_in_use=_first(None if graphs is None else graphs > 0.5, log.graphs_in_use),
        graph_share=graphs,
        requests_total=now.total("num_requests_total"),
        awaits=_awaits(prev, now, running, source),
    )


_N = TypeVar("_N", int, float, bool)


def _first(*values: _N | None) -> _N | None:
    return next((value for value in values if value is not None), None)


def _restarted(prev: Scrape, now: Scrape) -> bool:
    names = ("generation_tokens_total", "num_requests_total", "realtime_tokens_total", "spec_verify_calls_total")
    moved = ((prev.total(name), now.total(name)) for name in names)
    return any(before is not None and (after is None or after < before) for before, after in moved)


def _delta(prev: Scrape | None, now: Scrape, name: str, **labels: str) -> float | None:
    after = now.total(name, **labels)
    if prev is None or after is None:
        return None
    # A series appears with its first count.
    return total((after, -(prev.total(name, **labels) or 0.0)))


def _tokens_per_s(
    prev: Scrape | None, now: Scrape, clock_scale: float, running: int | None, loads: Loads | None
) -> float | None:
    counted = _counted(prev, now, running)
    if prev is not None and counted is not None:
        return counted / (now.at - prev.at) / clock_scale
    if running == 0:
        # The gauge keeps its last value when the engine is idle.
        return 0.0
    return _first(now.total("gen_throughput"), loads.tokens_per_s if loads else None)


def _counted(prev: Scrape | None, now: Scrape, running: int | None) -> float | None:
    """Tokens that were generated since ``prev``."""
    each_step = _delta(prev, now, "realtime_tokens_total", mode="decode")
    # This one counts a request when it ends, so no step of it while requests run says nothing.
    at_the_end = _delta(prev, now, "generation_tokens_total") or (None if running else 0.0)
    return each_step if each_step is not None else at_the_end


def _awaits(prev: Scrape | None, now: Scrape, running: int | None, accept_source: str | None) -> bool | None:
    if now.total("realtime_tokens_total", mode="decode") is None and now.total("generation_tokens_total") is None:
        return None
    if prev is None:
        return True
    by_gauge = accept_source == "gauge" and now.total("spec_verify_calls_total") is not None
    return bool(running) and (by_gauge or _counted(prev, now, running) is None)


def _accept_length(
    prev: Scrape | None, now: Scrape, running: int | None, log: EngineReading
) -> tuple[float | None, str | None]:
    """The length and where it is from. A gauge of 0 means that nothing was drafted, and so nothing was refused."""
    drafts = now.largest("spec_num_draft_tokens")
    lengths = [sample.value for sample in now.series("spec_accept_length") if sample.value > 0]
    if drafts == 0:
        return None, None
    tokens, calls = _delta(prev, now, "generation_tokens_total"), _delta(prev, now, "spec_verify_calls_total")
    if (drafts or lengths) and tokens and calls:
        length = tokens / calls
        if length >= _ACCEPT_FLOOR:
            return length, "counters"
    if lengths and running:
        return mean(lengths), "gauge"
    if running != 0 and log.accept_length is not None:
        return log.accept_length, "log"
    return None, None


def _graph_share(prev: Scrape | None, now: Scrape) -> float | None:
    """By what decode passes did since ``prev``, else since the engine started; prefill passes say nothing of it."""
    captured, eager = "decode_cuda_graph", "decode_none"
    with_graph = max(0.0, _delta(prev, now, "cuda_graph_passes_total", mode=captured) or 0.0)
    without = max(0.0, _delta(prev, now, "cuda_graph_passes_total", mode=eager) or 0.0)
    if not with_graph and not without:
        with_graph = now.total("cuda_graph_passes_total", mode=captured) or 0.0
        without = now.total("cuda_graph_passes_total", mode=eager) or 0.0
    return with_graph / (with_graph + without) if with_graph or without else None


def _percentile(prev: Scrape | None, now: Scrape, name: str, share: float) -> float | None:
    if prev is None:
        return None
    before, after = prev.buckets(name), now.buckets(name)
    return quantile({bound: count - before.get(bound, 0.0) for bound, count in after.items()}, share)


def quantile(cumulative: Mapping[float, float], share: float) -> float | None:
    """The ``share`` quantile of a histogram given as cumulative counts by upper bound, linear within a bucket.

    None when nothing was counted. What lies in the last, open bucket is put at its lower bound.
    """
    bounds = sorted(cumulative)
    count = cumulative[bounds[-1]] if bounds else 0.0
    if count <= 0:
        return None
    wanted = count * share
    lower, below = 0.0, 0.0
    for bound in bounds:
        here = cumulative[bound]
        if here >= wanted and here > below:
            if math.isinf(bound):
                return lower
            return lower + (bound - lower) * (wanted - below) / (here - below)
        if not math.isinf(bound):
            lower = bound
        below = max(below, here)
    return lower
