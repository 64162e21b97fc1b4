"""What the engine counts, and the gauges as they were last written."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

TTFT_EDGES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0, 400.0)
E2E_EDGES = (*TTFT_EDGES, 600.0, 1200.0, 1800.0, 2400.0)
ITL_EDGES = (
    0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0,
    2.0, 4.0, 6.0, 8.0,
)  # fmt: skip
LENGTH_EDGES = (
    100.0, 300.0, 500.0, 700.0, 1000.0, 1500.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0, 7000.0, 8000.0, 9000.0,
    10000.0, 12500.0, 15000.0, 17500.0, 20000.0, 22500.0, 25000.0, 27500.0, 30000.0, 35000.0, 40000.0, 60000.0,
    80000.0, 100000.0, 200000.0, 300000.0, 400000.0, 600000.0, 800000.0, 1e6, 1.1e6,
)  # fmt: skip
QUEUE_EDGES = (
    0.0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0,
    70.0, 80.0, 90.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1000.0, 1200.0, 1400.0, 1600.0,
    1800.0, 2000.0, 2500.0, 3000.0,
)  # fmt: skip
STAGE_EDGES = tuple(0.001 * 1.62**power for power in range(30))
IMBALANCE_EDGES = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0)
SYNC_EDGES = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Histogram:
    """Counts by upper edge, their sum and their number."""

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges = edges
        self.counts = [0] * (len(edges) + 1)
        self.total = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """Counts ``value`` ``times`` times."""
        self.counts[bisect_left(self.edges, value)] += times
        self.total += value * times


@dataclass
class Gauges:
    """The scheduler's gauges, which only some iterations write."""

    running: int = 0
    queued: int = 0
    throughput: float = 0.0
    accept_length: float = 0.0
    accept_rate: float = 0.0
    cuda_graph: float = 0.0
    cache_hit_rate: float = 0.0
    used_tokens: int = 0


def _by_streaming(edges: Sequence[float]) -> dict[bool, Histogram]:
    return {False: Histogram(edges), True: Histogram(edges)}


@dataclass
class Counters:
    """Everything that only grows between two starts. ``True`` in a key means a streaming request."""

    requests: Counter[bool] = field(default_factory=Counter)
    prompt_tokens: Counter[bool] = field(default_factory=Counter)
    generated: Counter[bool] = field(default_factory=Counter)
    aborted: int = 0
    cached_tokens: int = 0
    verify_calls: int = 0
    verify_steps: float = 0.0
    passes: Counter[str] = field(default_factory=Counter)
    decode_tokens: float = 0.0
    prefill_tokens: int = 0
    decode_passes: float = 0.0
    eager_passes: float = 0.0
    busy_s: float = 0.0
    prefill_busy_s: float = 0.0
    http: Counter[tuple[str, str]] = field(default_factory=Counter)
    responses: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    active: Counter[tuple[str, str]] = field(default_factory=Counter)
    ttft: dict[bool, Histogram] = field(default_factory=lambda: _by_streaming(TTFT_EDGES))
    e2e: dict[bool, Histogram] = field(default_factory=lambda: _by_streaming(E2E_EDGES))
    tpot: dict[bool, Histogram] = field(default_factory=lambda: _by_streaming(ITL_EDGES))
    itl: Histogram = field(default_factory=lambda: Histogram(ITL_EDGES))
    queue: Histogram = field(default_factory=lambda: Histogram(QUEUE_EDGES))
    process_stage: Histogram = field(default_factory=lambda: Histogram(STAGE_EDGES))
    prefill_stage: Histogram = field(default_factory=lambda: Histogram(STAGE_EDGES))
    prompt_length: Histogram = field(default_factory=lambda: Histogram(LENGTH_EDGES))
    uncached_length: Histogram = field(default_factory=lambda: Histogram(LENGTH_EDGES))
    generated_length: Histogram = field(default_factory=lambda: Histogram(LENGTH_EDGES))
