"""The answers of the reading routes: server, model, loads and metrics."""

from __future__ import annotations

import datetime
import os
import time
from typing import Any

from ddtune.sim.engine import startup
from ddtune.sim.engine.engine import Engine
from ddtune.sim.engine.launch import CONTEXT_LEN, TOKEN_CAPACITY
from ddtune.sim.engine.metrics import GRAPH_PHASES, Exposed, exposition

VERSION = "0.5.23"
ACCELERATORS = {"b300": "NVIDIA B300 SXM6 AC", "h200": "NVIDIA H200"}
_GRAPH_ZERO = dict.fromkeys(GRAPH_PHASES, 0.0)
_BCG_SIZES = [4, 8, 12, 16, 20, 24, 28, 32, 48, 64, 80, 96, 112, 128]


def context_len(engine: Engine) -> int:
    """The longest sequence that is served, in tokens."""
    return int(engine.launch.args["context_length"] or CONTEXT_LEN)


def weight_gb(engine: Engine) -> float:
    """Memory of the weights on one GPU, the drafter's with them."""
    return startup.WEIGHT_GB + (startup.DRAFT_GB if engine.launch.axes.algorithm else 0.0)


def server_info(engine: Engine) -> dict[str, Any]:
    """``/server_info``: resolved arguments, and the scheduler's state as ``internal_states``.

    Both hold the keys, and so does the launch command: SGLang hides none but a watermark's.
    """
    engine.look()
    args, times = engine.launch.args, startup.times(engine.launch.axes)
    cuda_graph = _GRAPH_ZERO | times.graph_s
    startup_time = {name: s for name, s in times.phases.items() if name != "tokenizer_e2e"} | {"cuda_graph": cuda_graph}
    state: dict[str, Any] = {
        **{
            name: value
            for name, value in args.items()
            if name not in ("custom_sigquit_handler", "hicache_object_layout")
        },
        "world_size": engine.launch.axes.tp_size,
        "startup_time": startup_time,
        "effective_max_running_requests_per_dp": engine.launch.axes.max_running,
        "last_gen_throughput": engine.batch.gauges.throughput,
        "memory_usage": {
            "weight": weight_gb(engine),
            "kvcache": startup.CACHE_GB,
            "startup_available": available_gb(engine),
            "token_capacity": TOKEN_CAPACITY,
            "token_capacity_swa": None,
            "graph": _GRAPH_ZERO | times.graph_gb,
        },
        "decode_cuda_graph_bs": args["cuda_graph_config"]["decode"]["bs"] if engine.launch.axes.graphs else [],
        "decode_cuda_graph_memory_gb": sum(gb for phase, gb in times.graph_gb.items() if phase != "prefill"),
    }
    counted = engine.counters
    if engine.launch.axes.algorithm and counted.verify_steps >= 1:
        state["avg_spec_accept_length"] = counted.decode_tokens / counted.verify_steps
    return {
        **args,
        "launch_command": engine.launch.command,
        "startup_time": startup_time | {"tokenizer_e2e": times.phases["tokenizer_e2e"]},
        "status": "ready",
        "max_total_num_tokens": TOKEN_CAPACITY,
        "max_req_input_len": context_len(engine) - 6,
        "kv_events": None,
        "internal_states": [state],
        "version": VERSION,
        "frontend": "python",
    }


def available_gb(engine: Engine) -> float:
    """Free memory of a GPU once the server is up."""
    graphs = sum(startup.times(engine.launch.axes).graph_gb.values())
    return round(startup.TOTAL_GB - 1.13 - weight_gb(engine) - startup.CACHE_GB - graphs, 3)


def model_info(engine: Engine) -> dict[str, Any]:
    """``/model_info``."""
    args = engine.launch.args
    return {
        "model_path": args["model_path"],
        "served_model_name": args["served_model_name"],
        "tokenizer_path": args["tokenizer_path"],
        "is_generation": True,
        "preferred_sampling_params": args["preferred_sampling_params"],
        "weight_version": args["weight_version"],
        "load_format": args["load_format"],
        "reasoning_parser": args["reasoning_parser"],
        "tool_call_parser": args["tool_call_parser"],
        "disaggregation_mode": args["disaggregation_mode"],
        "has_image_understanding": True,
        "has_audio_understanding": False,
        "model_type": "kimi_k25",
        "architectures": ["KimiK25ForConditionalGeneration"],
        "embedding": {"family": "none", "task": "none", "execution": "none", "attention": "none",
                      "pooling": "model_defined", "normalize": False, "enabled": False,
                      "bcg": {"prefill_backend": "disabled", "enabled": False, "capture_token_budget": 4096,
                              "capture_batch_sizes": _BCG_SIZES},
                      "cache": {"kv_cache_disabled": False, "radix_cache_disabled": False,
                                "chunked_prefill_disabled": False}},
    }  # fmt: skip


def models(engine: Engine) -> dict[str, Any]:
    """``/v1/models``."""
    name = engine.launch.model_name
    card = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "sglang", "root": name}
    return {"object": "list", "data": [{**card, "parent": None, "max_model_len": context_len(engine)}]}


def loads(engine: Engine) -> dict[str, Any]:
    """``/v1/loads``, from the snapshot that the scheduler last published: its ``timestamp`` stands while it hangs."""
    engine.look()
    batch, counted = engine.batch, engine.counters
    if not engine.still:
        engine.published = time.time()
    used = batch.tokens_in_use
    load: dict[str, Any] = {
        "timestamp": engine.published,
        "dp_rank": 0,
        "num_running_reqs": batch.running,
        "num_waiting_reqs": batch.queued,
        "num_waiting_uncached_tokens": sum(
            job.prompt_tokens - job.cached for job in batch.jobs if job.admitted is None
        ),
        "num_used_tokens": used,
        "num_total_tokens": used,
        "num_active_tokens": used,
        "num_prealloc_ready_tokens": 0,
        "max_total_num_tokens": TOKEN_CAPACITY,
        "max_running_requests": engine.launch.axes.max_running,
        "token_usage": round(used / TOKEN_CAPACITY, 4),
        "gen_throughput": round(batch.gauges.throughput, 2) if batch.running else 0.0,
        "cache_hit_rate": round(batch.gauges.cache_hit_rate, 4),
        "utilization": 0.0,
        "total_prefill_uncached_tokens": counted.prefill_tokens,
        "total_prefill_busy_us": int(counted.prefill_busy_s * 1e6),
        "decode_moments": [float(int(counted.decode_passes + counted.eager_passes))] * 6,
        "memory": {
            "weight_gb": round(weight_gb(engine), 3),
            "kv_cache_gb": startup.CACHE_GB,
            "graph_gb": round(sum(startup.times(engine.launch.axes).graph_gb.values()), 3),
            "token_capacity": TOKEN_CAPACITY,
        },
    }
    if engine.launch.axes.algorithm:
        gauges = batch.gauges
        load["speculative"] = {"accept_length": gauges.accept_length, "accept_rate": gauges.accept_rate}
    load["disaggregation"] = {
        "mode": "null", "prefill_bootstrap_queue_reqs": 0, "prefill_inflight_queue_reqs": 0,
        "decode_prealloc_queue_reqs": 0, "decode_transfer_queue_reqs": 0, "decode_retracted_queue_reqs": 0,
        "kv_transfer_speed_gb_s": 0.0, "kv_transfer_latency_ms": 0.0,
    }  # fmt: skip
    load["queues"] = {"waiting": batch.queued, "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0}
    return {
        "timestamp": datetime.datetime.now(datetime.UTC).isoformat(),
        "version": VERSION,
        "accelerator": ACCELERATORS.get(engine.settings.gpu, engine.settings.gpu),
        "num_accelerators": engine.launch.axes.tp_size,
        "loads": [load],
    }


def metrics(engine: Engine) -> str:
    """``/metrics``."""
    engine.look()
    return exposition(
        Exposed(
            model=engine.launch.model_name,
            pid=os.getpid(),
            axes=engine.launch.axes,
            counters=engine.counters,
            gauges=engine.batch.gauges,
            times=startup.times(engine.launch.axes),
            token_capacity=TOKEN_CAPACITY,
            context_len=context_len(engine),
            page_size=int(engine.launch.args["page_size"]),
            weight_gb=weight_gb(engine),
            cache_gb=startup.CACHE_GB,
            available_gb=available_gb(engine),
            own_s=engine.clock.now(),
            paused=engine.batch.running if engine.paused else 0,
            cpu_s=time.process_time(),
        )
    )
