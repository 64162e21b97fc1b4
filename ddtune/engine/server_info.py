"""What ``/server_info`` and ``/v1/loads`` say, in the shapes that several versions give them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddtune.engine.sums import mean, total, whole


@dataclass(frozen=True)
class Loads:
    """The scheduler's load as it last published it, summed over data-parallel ranks.

    ``timestamp`` (seconds since the epoch) is when: an engine that hangs answers with its last numbers for ever.
    """

    running: int | None = None
    queued: int | None = None
    max_running: int | None = None
    kv_usage: float | None = None
    cache_hit: float | None = None
    tokens_per_s: float | None = None
    accept_length: float | None = None
    timestamp: float | None = None


@dataclass(frozen=True)
class ServerInfo:
    """What ddtune reads of the engine's own account of itself. It holds no key: only what is named here is read.

    ``accept_length_since_boot`` is the engine's cumulative mean and never the present one.
    """

    version: str | None = None
    model: str | None = None
    status: str | None = None
    algorithm: str | None = None
    num_draft_tokens: int | None = None
    page_size: int | None = None
    max_running: int | None = None
    tp_size: int | None = None
    dp_size: int | None = None
    graphs_disabled: bool | None = None
    graph_batch_sizes: tuple[int, ...] | None = None
    accept_length_since_boot: float | None = None


def read_loads(body: Any) -> Loads | None:
    """From the JSON of ``/v1/loads`` or of the older ``/get_load``; None when it is neither."""
    entries = body.get("loads") if isinstance(body, Mapping) else body
    if not isinstance(entries, Sequence) or isinstance(entries, (str, bytes)):
        return None
    ranks = [entry for entry in entries if isinstance(entry, Mapping)]
    if not ranks:
        return None
    accept = [_number(rank.get("speculative", {}), "accept_length") for rank in ranks]
    return Loads(
        running=whole(_over(total, ranks, "num_running_reqs", "num_reqs")),
        queued=whole(_over(total, ranks, "num_waiting_reqs")),
        max_running=whole(_over(total, ranks, "max_running_requests")),
        kv_usage=_over(max, ranks, "token_usage"),
        cache_hit=_over(mean, ranks, "cache_hit_rate"),
        tokens_per_s=_over(total, ranks, "gen_throughput"),
        accept_length=mean(length for length in accept if length),
        timestamp=_over(min, ranks, "timestamp"),
    )


def read_server_info(body: Any) -> ServerInfo | None:
    """From the JSON of ``/server_info`` (or ``/get_server_info``); None when it is no object."""
    if not isinstance(body, Mapping):
        return None
    states = body.get("internal_states")
    found = [s for s in states if isinstance(s, Mapping)] if isinstance(states, Sequence) else []
    state: Mapping[str, Any] = found[0] if found else {}
    # Older versions put all at the top; the running state is nearer to the truth than the arguments.
    both = (state, body)
    sizes = _pick(both, "decode_cuda_graph_bs")
    return ServerInfo(
        version=_text(_pick((body, state), "version")),
        model=_text(_pick((body, state), "model_path")),
        status=_text(_pick((body, state), "status")),
        algorithm=_text(_pick(both, "speculative_algorithm")),
        num_draft_tokens=whole(_first_number(both, "speculative_num_draft_tokens")),
        page_size=whole(_first_number(both, "page_size")),
        max_running=whole(_first_number(both, "effective_max_running_requests_per_dp", "max_running_requests")),
        tp_size=whole(_first_number(both, "tp_size")),
        dp_size=whole(_first_number(both, "dp_size")),
        graphs_disabled=_flag(_pick(both, "disable_cuda_graph")),
        graph_batch_sizes=tuple(size for size in sizes if isinstance(size, int)) if isinstance(sizes, list) else None,
        accept_length_since_boot=_first_number(both, "avg_spec_accept_length"),
    )


def _over(
    merge: Callable[[list[float]], float | None], ranks: Sequence[Mapping[str, Any]], *names: str
) -> float | None:
    values = [value for rank in ranks if (value := _number(rank, *names)) is not None]
    return merge(values) if values else None


def _number(entry: Any, *names: str) -> float | None:
    for name in names:
        value = entry.get(name) if isinstance(entry, Mapping) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    return None


def _pick(places: Sequence[Mapping[str, Any]], name: str) -> Any:
    return next((place[name] for place in places if place.get(name) is not None), None)


def _first_number(places: Sequence[Mapping[str, Any]], *names: str) -> float | None:
    return next((value for place in places if (value := _number(place, *names)) is not None), None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
