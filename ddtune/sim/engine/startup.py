"""The start as a timetable: what is logged when, in own seconds, until the HTTP server is up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ddtune.sim.engine.axes import Axes
from ddtune.sim.engine.launch import CONTEXT_LEN, TOKEN_CAPACITY, Launch

SHARDS = 64
ARGS_S, SPAWN_S, INIT_S, INIT_END_S, WEIGHTS_S, WEIGHTS_END_S = 9.0, 12.0, 26.0, 38.0, 40.0, 96.0
DRAFT_END_S, CACHE_S, GRAPHS_S = 101.0, 103.0, 105.0
PREFILL_GRAPHS_S, DECODE_GRAPHS_S, DRAFT_GRAPHS_S = 7.0, 28.25, 4.0
HTTP_S, WARMUP_S, READY_S = 2.0, 2.3, 1.2
WEIGHT_GB, DRAFT_GB, CACHE_GB, TOTAL_GB = 74.06, 6.11, 148.92, 274.31
PREFILL_GRAPH_GB, DECODE_GRAPH_GB, DRAFT_GRAPH_GB = 1.42, 3.87, 0.61


@dataclass(frozen=True)
class StartTimes:
    """How long each part of a start takes, in own seconds, and the memory of its graphs in GB."""

    phases: dict[str, float]
    graph_s: dict[str, float] = field(default_factory=dict)
    graph_gb: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """At ``at`` own seconds something happens: ``line`` is logged by the server (rank None), one rank or ``all``.

    ``mark`` names a point that the process acts on: spawn, weights, graphs, cache, http. ``memory`` is the share of GPU
    memory taken from then on, as gpus.Load has it.
    """

    at: float
    line: str = ""
    rank: int | str | None = None
    mark: str = ""
    memory: float | None = None


def times(axes: Axes) -> StartTimes:
    """The durations that a start with ``axes`` has."""
    verify = "target_verify" if axes.algorithm else "decode"
    seconds: dict[str, float] = {}
    memory: dict[str, float] = {}
    if axes.prefill_graphs:
        seconds["prefill"], memory["prefill"] = PREFILL_GRAPHS_S, PREFILL_GRAPH_GB
    if axes.graphs:
        seconds[verify], memory[verify] = DECODE_GRAPHS_S, DECODE_GRAPH_GB
        if axes.algorithm:
            seconds["draft_decode"], memory["draft_decode"] = DRAFT_GRAPHS_S, DRAFT_GRAPH_GB
    scheduler = GRAPHS_S - SPAWN_S + sum(seconds.values())
    phases = {
        "load_weight": (DRAFT_END_S if axes.algorithm else WEIGHTS_END_S) - WEIGHTS_S,
        "kv_cache_allocation": CACHE_S - DRAFT_END_S,
        "scheduler_e2e": scheduler,
        "tokenizer_e2e": scheduler + SPAWN_S,
    }
    return StartTimes(phases, seconds, memory)


def timetable(launch: Launch) -> Iterator[Step]:
    """Every step up to the one marked ``http``, in order of time."""
    axes, args = launch.axes, launch.args
    yield Step(0.0, _WARNING, "raw")
    yield from (Step(ARGS_S - 1, note) for note in launch.notes)
    yield Step(ARGS_S, f"server_args={args}")
    yield Step(ARGS_S + 1.5, "Using default HuggingFace chat template with detected content format: string")
    yield Step(SPAWN_S, mark="spawn")
    yield Step(INIT_S, "Init torch distributed begin.", "all")
    yield Step(INIT_END_S, "Init torch distributed ends. elapsed=11.94 s, mem usage=1.13 GB", "all", memory=0.02)
    yield Step(WEIGHTS_S, f"Load weight begin. avail mem={TOTAL_GB - 1.13:.2f} GB", "all", mark="weights")
    yield from _weights()
    left = TOTAL_GB - 1.13 - WEIGHT_GB
    loaded = f"mem usage={WEIGHT_GB:.2f} GB."
    name = "KimiK25ForConditionalGeneration"
    elapsed = WEIGHTS_END_S - WEIGHTS_S
    yield Step(
        WEIGHTS_END_S,
        f"Load weight end. elapsed={elapsed:.2f} s, type={name}, avail mem={left:.2f} GB, {loaded}",
        "all",
        memory=1.0,
    )
    if axes.algorithm:
        yield Step(WEIGHTS_END_S + 1, f"Load weight begin. avail mem={left:.2f} GB", "all")
        left -= DRAFT_GB
        end = f"Load weight end. elapsed=3.82 s, type=DFlashDraftModel, avail mem={left:.2f} GB, "
        yield Step(DRAFT_END_S, f"{end}mem usage={DRAFT_GB:.2f} GB.", "all")
    cache = f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {TOKEN_CAPACITY}, "
    half = f"{CACHE_GB / 2:.2f} GB"
    yield Step(CACHE_S, f"{cache}K size: {half}, V size: {half}", "all", mark="cache", memory=2.0)
    left -= CACHE_GB
    yield Step(CACHE_S + 0.5, f"Memory pool end. avail mem={left:.2f} GB", "all")
    at = GRAPHS_S
    yield Step(at, mark="graphs")
    for step in _captures(axes, args, left):
        at = step.at
        yield step
    left -= sum(times(axes).graph_gb.values())
    yield from _served(launch, at, left)


def _weights() -> Iterator[Step]:
    for shard in range(0, SHARDS + 1, 4):
        share = shard / SHARDS
        took = (WEIGHTS_END_S - WEIGHTS_S) * share
        rate = f"{SHARDS / (WEIGHTS_END_S - WEIGHTS_S):.2f}" if shard else "?"
        eta = _clock(took / share - took) if shard else "?"
        line = (
            f"Multi-thread loading shards: {100 * share:3.0f}% Completed | {shard}/{SHARDS} "
            f"[{_clock(took)}<{eta},  {rate}it/s]"
        )
        yield Step(WEIGHTS_S + took, line, "raw", memory=share)


def _captures(axes: Axes, args: dict[str, Any], left: float) -> Iterator[Step]:
    at = GRAPHS_S + 0.1
    config: dict[str, dict[str, Any]] = args["cuda_graph_config"]
    spans = times(axes)
    if not axes.prefill_graphs:
        why = "cuda_graph_config resolved prefill.backend='disabled'"
        tail = "(e.g. via --cuda-graph-backend-prefill=disabled or auto-disable rules)."
        yield Step(at, f"Disable prefill CUDA graph because {why} {tail}", 0)
    for phase, name, unit in (
        ("prefill", "target prefill", "num_tokens"),
        ("target_verify", "target verify", "bs"),
        ("decode", "target decode", "bs"),
        ("draft_decode", "draft decode", "bs"),
    ):
        if phase not in spans.graph_s:
            continue
        of = config["prefill" if phase == "prefill" else "decode"]
        sizes = of["bs"]
        rows = axes.draft_tokens if phase != "draft_decode" else 8
        per_request = "" if phase == "prefill" else f"num_tokens_per_req={rows}, "
        yield Step(
            at,
            f"Capture {name} CUDA graph begin. backend={of['backend']}, {per_request}{unit}={sizes}, "
            f"avail mem={left:.2f} GB",
            "all",
        )
        span, used = spans.graph_s[phase], spans.graph_gb[phase]
        yield from _capturing(at, span, sizes, unit, left, used)
        at += span
        left -= used
        yield Step(
            at,
            f"Capture {name} CUDA graph end. elapsed={span:.2f} s, mem usage={used:.2f} GB, avail mem={left:.2f} GB.",
            "all",
        )
        at += 0.05


def _capturing(at: float, span: float, sizes: list[int], unit: str, left: float, used: float) -> Iterator[Step]:
    what = "Capturing num tokens (num_tokens" if unit == "num_tokens" else "Capturing batches (bs"
    stride = max(1, len(sizes) // 12)
    for index, size in list(enumerate(reversed(sizes)))[::stride]:
        share = index / len(sizes)
        took = span * share
        bar = "█" * int(10 * share)
        line = (
            f"{what}={size} avail_mem={left - used * share:.2f} GB): {100 * share:3.0f}%|{bar:<10}| "
            f"{index}/{len(sizes)} [{_clock(took)}<{_clock(span - took)}, {len(sizes) / span:5.2f}it/s]"
        )
        yield Step(at + took, line, "raw")


def _served(launch: Launch, at: float, left: float) -> Iterator[Step]:
    axes = launch.axes
    spans = times(axes)
    yield Step(
        at + 0.2,
        f"max_total_num_tokens={TOKEN_CAPACITY}, chunked_prefill_size={launch.args['chunked_prefill_size']}, "
        f"max_prefill_tokens={launch.args['max_prefill_tokens']}, max_running_requests={axes.max_running}, "
        f"context_len={launch.args['context_length'] or CONTEXT_LEN}, available_gpu_mem={left:.2f} GB",
        0,
    )
    tree = "source=default impl=UnifiedRadixCache hybrid_swa=False hybrid_ssm=False hicache_attached=False"
    yield Step(at + 0.3, f"Tree cache initialized: {tree}", 0)
    graphs = ", ".join(
        f"{phase}={spans.graph_s.get(phase, 0.0):.2f}"
        for phase in ("prefill", "decode", "target_verify", "draft_prefill", "draft_decode", "draft_extend")
    )
    phases = spans.phases
    yield Step(
        at + 0.4,
        f"Engine startup timings (s): load_weight={phases['load_weight']:.2f}, "
        f"kv_cache_allocation={phases['kv_cache_allocation']:.2f}, scheduler_e2e={phases['scheduler_e2e']:.2f}, "
        f"cuda_graph={{{graphs}}}, tokenizer_e2e={phases['tokenizer_e2e']:.2f}",
    )
    yield Step(at + HTTP_S, mark="http")


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


_WARNING = (
    "/opt/sglang/lib/python3.12/site-packages/sglang/launch_server.py:71: UserWarning: 'python -m "
    "sglang.launch_server' is still supported, but 'sglang serve' is the recommended entrypoint.\n"
    "  Example: sglang serve --model-path <model> [options]\n"
    "  warnings.warn("
)
