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
    "http_requests_active",
    "time_to_first_token_seconds_bucket",
    "inter_token_latency_seconds_bucket",
)
"""Samples without the engine's prefix; ``ddtune.engine.exposition`` reads the same ones."""

_SAME_EVERYWHERE = frozenset(("model_name", "engine_type", "pid"))
_LONGEST = 1 << 16
_LINE = re.compile(r"sglang[:_](?:{})(?=[ {{])".format("|".join(FAMILIES)))
_PAIR = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Sieve:
    """Takes exposition text in pieces and keeps the lines of the families above, with the labels that tell
    series apart. ``lines`` counts all samples.

    However much the engine writes, only what is kept and one line stay in memory.
    """

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._rest = b""
        self.lines = 0

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line[:1] not in (b"#", b""):
                self.lines += 1
                if line.startswith(b"sglang") and _LINE.match(text := line.decode(errors="replace")):
                    self._kept.append(_shortened(text.rstrip("\r")))
        if len(self._rest) > _LONGEST:
            self._rest = b""

    def text(self) -> str:
        """What was kept. A line without its end is left out: its number may have been cut."""
        return "".join(line + "\n" for line in self._kept)


def _shortened(line: str) -> str:
    name, brace, rest = line.partition("{")
    labels, closing, value = rest.rpartition("}")
    if not brace or not closing:
        return line
    kept = ",".join(f'{key}="{text}"' for key, text in _PAIR.findall(labels) if key not in _SAME_EVERYWHERE)
    return f"{name}{{{kept}}}{value}" if kept else f"{name}{value}"
