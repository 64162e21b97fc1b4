"""``meta_info`` of one generation."""

from __future__ import annotations

import time
from typing import Any

from ddtune.sim.engine.engine import Engine
from ddtune.sim.engine.job import Job
from ddtune.sim.engine.vocabulary import EOS_ID


def finish_reason(job: Job) -> dict[str, Any]:
    """Why the generation ended."""
    if job.aborted:
        where = "Abort in waiting queue" if job.first_at is None else "Aborted"
        return {"type": "abort", "message": where, "status_code": None, "err_type": None}
    if job.ended:
        return {"type": "stop", "matched": EOS_ID if job.stopped_by is None else job.stopped_by}
    return {"type": "length", "length": job.produced}


def meta_info(engine: Engine, job: Job, produced: int) -> dict[str, Any]:
    """The fields of a chunk with ``produced`` tokens; the final one (``job.finished``) has them all."""
    metrics = bool(engine.launch.args["enable_metrics"])
    wall, now = time.time(), engine.clock.now()
    final = job.finished is not None
    info: dict[str, Any] = {
        "id": job.rid,
        "finish_reason": finish_reason(job) if final else None,
        "prompt_tokens": job.prompt_tokens,
        "weight_version": "default",
        "num_retractions": 0,
        "storage_prefetch_wait": 0.0,
        "storage_staging_wait": 0.0,
    }
    first = job.first_at if job.first_at is not None else now
    admitted = job.admitted if job.admitted is not None else first
    if metrics:
        info["forward_entry_time"] = job.received_wall + 0.0005
        info["prefill_finished_time"] = wall - max(0.0, now - first) / engine.clock.speed
        info["queue_time"] = max(0.0, admitted - job.submitted)
    info["reasoning_tokens"] = 0
    info["completion_tokens"] = produced
    info["cached_tokens"] = job.cached
    if final:
        info["weight_versions"] = [{"version": "default", "start": 0, "end": produced}]
    info["cached_tokens_details"] = {"device": job.cached, "host": 0} if job.cached else None
    info["dp_rank"] = None
    if not final:
        return info
    assert job.finished is not None
    info["e2e_latency"] = job.finished - job.submitted
    if engine.launch.axes.algorithm and produced:
        info |= _speculation(engine, job)
    if metrics:
        spent = job.finished - first
        info["request_received_ts"] = job.received_wall
        info["first_token_latency"] = first - job.submitted
        info["api_server_dispatch_finish_ts"] = job.received_wall + 0.0002
        info["request_finished_ts"] = wall
        info["decode_throughput"] = (produced - 1) / spent if spent > 0 else 0.0
        info["response_sent_to_client_ts"] = wall
    return info


def _speculation(engine: Engine, job: Job) -> dict[str, Any]:
    steps = job.verify_calls
    correct = max(0, job.produced - steps)
    proposed = steps * engine.launch.axes.budget
    return {
        "spec_accept_rate": correct / proposed if proposed else 0.0,
        "spec_accept_length": job.produced / steps if steps else 0.0,
        "spec_num_correct_drafts": correct,
        "spec_num_proposed_drafts": proposed,
        "spec_verify_ct": steps,
        "spec_correct_drafts_histogram": histogram(steps, correct, engine.launch.axes.draft_tokens),
    }


def histogram(steps: int, correct: int, size: int) -> list[int]:
    """How many of ``steps`` accepted 0, 1, … drafts, so that they sum to ``correct``."""
    counts = [0] * size
    if not steps:
        return counts
    low, rest = divmod(correct, steps)
    low, rest = (low, rest) if low < size - 1 else (size - 1, 0)
    counts[low] = steps - rest
    if rest:
        counts[low + 1] += rest
    # Pairs that move one down and one up keep the sum; real verify steps scatter.
    reach = 1
    while low - reach >= 0 and low + reach < size:
        pairs = counts[low] // (3 + reach)
        counts[low] -= 2 * pairs
        counts[low - reach] += pairs
        counts[low + reach] += pairs
        reach += 1
    return counts
