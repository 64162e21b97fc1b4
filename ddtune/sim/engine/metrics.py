"""``/metrics``: every family of SGLang 0.5.23, in its own order, labels and types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from ddtune.sim.engine.axes import Axes
from ddtune.sim.engine.counters import IMBALANCE_EDGES, SYNC_EDGES, Counters, Gauges, Histogram
from ddtune.sim.engine.flags import DATA
from ddtune.sim.engine.startup import StartTimes

GRAPH_PHASES = ("prefill", "decode", "target_verify", "draft_prefill", "draft_decode", "draft_extend")
STAGES = (
    "other", "recv_requests", "process_input_requests", "get_next_batch_to_run", "process_queue", "run_batch",
    "process_batch_result", "sanity_check_cache", "idle",
)  # fmt: skip
_ROUTING = ("0", "1", "2", "3", "5", "7", "10", "20", "50", "100", "200", "+Inf")


@dataclass(frozen=True)
class Exposed:
    """All that one scrape shows."""

    model: str
    pid: int
    axes: Axes
    counters: Counters
    gauges: Gauges
    times: StartTimes
    token_capacity: int
    context_len: int
    page_size: int
    weight_gb: float
    cache_gb: float
    available_gb: float
    own_s: float
    paused: int
    cpu_s: float


Sample = tuple[str, str, float]
"""A suffix of the family's name, the labels as text, and the value."""


@cache
def families() -> tuple[tuple[str, str, str], ...]:
    """``(name without prefix, type, help)`` in the order of the real exposition."""
    text = (DATA / "families.txt").read_text(encoding="utf-8")
    return tuple((name, kind, about) for name, kind, about in (line.split("|", 2) for line in text.splitlines()))


def exposition(shown: Exposed) -> str:
    """The whole text of one scrape."""
    samples = _samples(shown)
    lines = []
    for name, kind, about in families():
        if not samples.get(name):
            continue
        lines.append(f"# HELP sglang:{name} {about}\n# TYPE sglang:{name} {kind}\n")
        lines += [f"sglang:{name}{suffix}{text} {_number(value)}\n" for suffix, text, value in samples[name]]
    return "".join(lines)


def _number(value: float) -> str:
    """As the Python client writes numbers: from a million on with an exponent."""
    if value != value:
        return "NaN"
    text = repr(float(value))
    dot = text.find(".")
    if value <= 0 or dot <= 6:
        return text
    return f"{f'{text[0]}.{text[1:dot]}{text[dot + 1 :]}'.rstrip('0.')}e+{dot - 1:02d}"


def labels(pairs: Mapping[str, str]) -> str:
    """Labels as the exposition writes them, sorted and escaped."""
    quoted = (
        f'{name}="{value}"'
        for name, value in sorted(
            (name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
            for name, value in pairs.items()
        )
    )
    return "{" + ",".join(quoted) + "}"


def _samples(shown: Exposed) -> dict[str, list[Sample]]:
    tokenizer = {"engine_type": "unified", "model_name": shown.model}
    scheduler = {**tokenizer, "moe_ep_rank": "0", "pp_rank": "0", "tp_rank": "0"}
    found = {name: [("", labels(scheduler), value)] for name, value in _gauges(shown).items()}
    for family, by_streaming in _by_streaming(shown.counters).items():
        found[family] = list(_streaming(by_streaming, tokenizer))
    for name, kind, by_label in _labelled(shown):
        base = {} if kind == "bare" else scheduler if kind == "scheduler" else tokenizer
        found[name] = [("", labels({**base, **dict(pairs)}), value) for pairs, value in by_label]
    counted = shown.counters
    for name, histogram, base in (
        ("queue_time_seconds", counted.queue, scheduler),
        ("prompt_tokens_histogram", counted.prompt_length, tokenizer),
        ("uncached_prompt_tokens_histogram", counted.uncached_length, tokenizer),
        ("generation_tokens_histogram", counted.generated_length, tokenizer),
        ("inter_token_latency_seconds", counted.itl, tokenizer),
        ("dp_attention_token_imbalance_ratio", Histogram(IMBALANCE_EDGES), scheduler),
        ("dp_attention_sync_wait_seconds", Histogram(SYNC_EDGES), scheduler),
    ):
        found[name] = list(_histogram(histogram, base))
    found["per_stage_req_latency_seconds"] = [
        *_histogram(counted.process_stage, {**scheduler, "stage": "request_process"}),
        *_histogram(counted.prefill_stage, {**scheduler, "stage": "prefill_forward"}),
    ]
    found["routing_keys_active"] = [("", "", 0.0)]
    return found


def _gauges(shown: Exposed) -> dict[str, float]:
    gauges, capacity = shown.gauges, shown.token_capacity
    free = capacity - gauges.used_tokens
    evictable = min(free, shown.counters.cached_tokens + shown.counters.prefill_tokens)
    values = {name: 0.0 for name, kind, _ in families() if kind == "gauge"}
    values |= {
        "max_total_num_tokens": capacity,
        "weight_memory_usage_gb": shown.weight_gb,
        "kv_cache_memory_usage_gb": shown.cache_gb,
        "page_size": shown.page_size,
        "num_pages": capacity // shown.page_size,
        "context_len": shown.context_len,
        "startup_available_gpu_memory_gb": shown.available_gb,
        "num_running_reqs": gauges.running,
        "num_queue_reqs": gauges.queued,
        "gen_throughput": gauges.throughput,
        "cache_hit_rate": gauges.cache_hit_rate,
        "decode_sum_seq_lens": gauges.used_tokens,
        "token_usage": round(gauges.used_tokens / capacity, 2),
        "full_token_usage": gauges.used_tokens / capacity,
        "num_used_tokens": gauges.used_tokens,
        "kv_available_tokens": free - evictable,
        "kv_evictable_tokens": evictable,
        "kv_used_tokens": gauges.used_tokens,
        "spec_accept_length": gauges.accept_length,
        "spec_accept_rate": gauges.accept_rate,
        "spec_num_steps": 1.0 if shown.axes.algorithm else 0.0,
        "spec_num_draft_tokens": shown.axes.draft_tokens if shown.axes.algorithm else 0.0,
        "fwd_occupancy": float("nan"),
        "new_token_ratio": 0.7,
        "is_cuda_graph": gauges.cuda_graph,
    }
    values["scheduler_idle_seconds_total"] = max(0.0, shown.own_s - shown.counters.busy_s)
    values["scheduler_process_cpu_seconds_total"] = shown.own_s * 0.98
    return values


def _by_streaming(counted: Counters) -> dict[str, Mapping[bool, float] | Mapping[bool, Histogram]]:
    return {
        "prompt_tokens_total": counted.prompt_tokens,
        "generation_tokens_total": counted.generated,
        "num_requests_total": counted.requests,
        "time_to_first_token_seconds": counted.ttft,
        "e2e_request_latency_seconds": counted.e2e,
        "request_time_per_output_token_seconds": counted.tpot,
    }


def _streaming(values: Mapping[bool, float] | Mapping[bool, Histogram], base: Mapping[str, str]) -> Iterator[Sample]:
    for streaming in (False, True):
        value = values.get(streaming)
        named = {**base, "is_streaming": str(streaming).lower()}
        if isinstance(value, Histogram):
            yield from _histogram(value, named) if sum(value.counts) else ()
        elif value:
            yield "", labels(named), float(value)


def _histogram(histogram: Histogram, base: Mapping[str, str]) -> Iterator[Sample]:
    yield "_sum", labels(base), histogram.total
    seen = 0
    for edge, count in zip((*histogram.edges, float("inf")), histogram.counts, strict=True):
        seen += count
        yield "_bucket", labels({**base, "le": "+Inf" if edge == float("inf") else _number(edge)}), float(seen)
    yield "_count", labels(base), float(seen)


Labelled = tuple[str, str, Iterable[tuple[Iterable[tuple[str, str]], float]]]


def _labelled(shown: Exposed) -> Iterator[Labelled]:
    counted = shown.counters
    graph_gb = dict.fromkeys(GRAPH_PHASES, 0.0) | shown.times.graph_gb
    yield "graph_memory_usage_gb", "scheduler", [([("phase", phase)], graph_gb[phase]) for phase in GRAPH_PHASES]
    graph_s = dict.fromkeys(GRAPH_PHASES, 0.0) | shown.times.graph_s
    yield (
        "startup_cuda_graph_time_seconds",
        "tokenizer",
        [([("phase", phase)], graph_s[phase]) for phase in GRAPH_PHASES],
    )
    yield "startup_time_seconds", "tokenizer", [([("phase", name)], s) for name, s in shown.times.phases.items()]
    for name in ("routing_key_running_req_count", "routing_key_all_req_count"):
        yield name, "scheduler", [([("gt", low), ("le", high)], 0.0) for low, high in pairwise(_ROUTING)]
    yield (
        "process_cpu_seconds_total",
        "bare",
        [([("component", name)], shown.cpu_s) for name in ("tokenizer", "detokenizer")],
    )
    http = [([("endpoint", path), ("method", method)], float(n)) for (method, path), n in counted.http.items()]
    yield "http_requests_total", "bare", http
    yield (
        "http_responses_total",
        "bare",
        [
            ([("endpoint", path), ("method", method), ("status_code", str(status))], float(n))
            for (method, path, status), n in counted.responses.items()
        ],
    )
    active = [([("endpoint", path), ("method", method)], float(n)) for (method, path), n in counted.active.items()]
    yield "http_requests_active", "bare", active
    if counted.cached_tokens:
        yield "cached_tokens_total", "tokenizer", [([("cache_source", "device")], float(counted.cached_tokens))]
    yield "num_retracted_reqs", "scheduler", [([("pid", str(shown.pid))], 0.0)]
    yield "num_paused_reqs", "scheduler", [([("pid", str(shown.pid))], float(shown.paused))]
    effective = {"input": counted.prefill_tokens, "device_hit": counted.cached_tokens, "host_hit": 0, "storage_hit": 0}
    yield "prefill_effective_tokens_total", "scheduler", [([("mode", mode)], float(n)) for mode, n in effective.items()]
    stage_s = dict.fromkeys(STAGES, 0.0) | {"run_batch": counted.busy_s, "idle": max(0.0, shown.own_s - counted.busy_s)}
    yield (
        "scheduler_stage_seconds_total",
        "scheduler",
        [([("category", name), ("forward_overlap", "none")], s) for name, s in stage_s.items()],
    )
    for name in ("dp_attention_tokens_total", "dp_attention_pairs_total"):
        yield name, "scheduler", [([("kind", kind)], 0.0) for kind in ("scheduled", "imbalance")]
    yield "dp_attention_steps_total", "scheduler", [([("rank_state", s)], 0.0) for s in ("active", "idle")]
    passes = {
        **counted.passes,
        "decode_cuda_graph": int(counted.decode_passes),
        "decode_none": int(counted.eager_passes),
    }
    # A mode that was never used has no series.
    yield "cuda_graph_passes_total", "scheduler", [([("mode", mode)], float(n)) for mode, n in passes.items() if n]
    tokens = {
        "prefill_compute": counted.prefill_tokens,
        "decode": int(counted.decode_tokens),
        "prefill_cache": counted.cached_tokens,
    }
    yield "realtime_tokens_total", "scheduler", [([("mode", mode)], float(n)) for mode, n in tokens.items() if n]
    if shown.axes.algorithm:
        yield "spec_verify_calls_total", "tokenizer", [([], float(counted.verify_calls))]
    if counted.aborted:
        yield "num_aborted_requests_total", "tokenizer", [([], float(counted.aborted))]
