"""Only what ddtune reads of the engine's metrics: a tenth of the text."""

from __future__ import annotations

import re

FAMILIES = (
    "gen_throughput",
    "num_running_reqs",
    "num_queue_reqs",
    "token_usage",
    "cache_hit_rate",
    "cuda_graph_passes_total",
    "realtime_tokens_total",
    "generation_tokens_total",
    "spec_verify_calls_total",
    "spec_accept_length",
    "spec_num_draft_tokens",
    "num_requests_total",
    "time_to_first_token_seconds_bucket",
    "inter_token_latency_seconds_bucket",
)
"""Samples without the engine's prefix; ``ddtune.engine.exposition`` reads the same ones."""

_SAME_EVERYWHERE = frozenset(("model_name", "engine_type", "pid"))
_LINE = re.compile(r"sglang[:_](?:{})(?=[ {{])".format("|".join(FAMILIES)))
_PAIR = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def filtered(text: str) -> str:
    """The lines of ``text`` (Prometheus exposition) of the families above, with the labels that tell series apart."""
    return "".join(_shortened(line) + "\n" for line in text.splitlines() if _LINE.match(line))


def _shortened(line: str) -> str:
    name, brace, rest = line.partition("{")
    labels, closing, value = rest.rpartition("}")
    if not brace or not closing:
        return line
    kept = ",".join(f'{key}="{text}"' for key, text in _PAIR.findall(labels) if key not in _SAME_EVERYWHERE)
    return f"{name}{{{kept}}}{value}" if kept else f"{name}{value}"
