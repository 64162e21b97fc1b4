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

    It says nothing of health: an engine that hangs answers with its last numbers for ever.
    """

    running: int | None = None
    queued: int | None = None
    max_running: int | None = None
    kv_usage: float | None = None
    cache_hit: float | None = None
    tokens_per_s: float | None = None


@dataclass(frozen=True)
class ServerInfo:
    """What ddtune reads of the engine's own account of itself. It holds no key: only what is named here is read."""

    version: str | None = None
    model: str | None = None


def read_loads(body: Any) -> Loads | None:
    """From the JSON of ``/v1/loads`` or of the older ``/get_load``; None when it is neither."""
    entries = body.get("loads") if isinstance(body, Mapping) else body
    if not isinstance(entries, Sequence) or isinstance(entries, (str, bytes)):
        return None
    ranks = [entry for entry in entries if isinstance(entry, Mapping)]
    if not ranks:
        return None
    return Loads(
        running=whole(_over(total, ranks, "num_running_reqs", "num_reqs")),
        queued=whole(_over(total, ranks, "num_waiting_reqs")),
        max_running=whole(_over(total, ranks, "max_running_requests")),
        kv_usage=_over(max, ranks, "token_usage"),
        cache_hit=_over(mean, ranks, "cache_hit_rate"),
        tokens_per_s=_over(total, ranks, "gen_throughput"),
    )


def read_server_info(body: Any) -> ServerInfo | None:
    """From the JSON of ``/server_info`` (or ``/get_server_info``); None when it is no object."""
    if not isinstance(body, Mapping):
        return None
    states = body.get("internal_states")
    found = [s for s in states if isinstance(s, Mapping)] if isinstance(states, Sequence) else []
    state: Mapping[str, Any] = found[0] if found else {}
    return ServerInfo(
        version=_text(_pick((body, state), "version")),
        model=_text(_pick((body, state), "model_path")),
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


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
