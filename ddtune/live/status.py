"""A snapshot as the JSON that ``ddtune status`` prints; see docs/json.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ddtune.engine.model import LogLine
from ddtune.gpu.bound import bound
from ddtune.gpu.reading import joules_per_token, node_power_w
from ddtune.live.snapshot import Snapshot

PROTO = 1
LOG_TOLD = 20
_SERVICE = (
    *("unit", "state", "sub_state", "health", "last_proof_s", "profile", "release", "standing", "stable_profile"),
    *("accept_length", "tokens_per_s", "running", "queued", "max_running", "kv_usage", "cache_hit"),
    *("ttft_p50_s", "ttft_p95_s", "itl_p50_s", "itl_p95_s", "graphs_in_use", "main_pid", "invocation", "restarts"),
    *("schedulers", "schedulers_expected", "health_why", "accept_source", "frozen", "phase", "engine_version"),
    *("launched", "graph_share"),
)


_LOG = ("at", "source", "rank", "severity", "text", "fatal", "count", "folded")


def status_json(one: Snapshot) -> dict[str, Any]:
    """The snapshot, with the warnings and errors of its log alone. What is not available is null."""
    service = asdict(one.service)
    power_w = node_power_w(one.gpus)
    return {
        "proto": PROTO,
        "host": one.host,
        "simulated": one.simulated,
        "adopted": one.adopted,
        "at": one.at,
        "link": asdict(one.link),
        "gpu_source": one.gpu_source,
        "gpus": [asdict(gpu) for gpu in one.gpus],
        "power_w": power_w,
        "joules_per_token": joules_per_token(power_w, one.service.tokens_per_s),
        "bound": asdict(bound(one.gpus)),
        "service": {name: service[name] for name in _SERVICE},
        "ages": asdict(one.ages),
        "txn": one.txn,
        "incidents": [asdict(incident) for incident in one.incidents],
        "notes": list(one.notes),
        "alarms": [asdict(alarm) for alarm in one.alarms],
        "unreadable": list(one.unreadable),
        "watch": None if one.watch is None else asdict(one.watch),
        "watches": [asdict(watch) for watch in one.watches],
        "xids": None if one.xids is None else [asdict(event) for event in one.xids],
        "log": [{name: getattr(line, name) for name in _LOG} for line in told(one.log)],
    }


def told(log: Sequence[LogLine], most: int = LOG_TOLD) -> list[LogLine]:
    """The newest lines that are more than information, oldest first."""
    return [line for line in log if line.severity != "info" or line.fatal is not None][-most:]
