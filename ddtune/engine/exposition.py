"""Prometheus text from the engine, tolerant of lines that cannot be read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from prometheus_client.parser import text_string_to_metric_families

from ddtune.engine.sums import mean, total

_PREFIX = re.compile(r"^sglang[:_]")
_INSTANCE = frozenset(("pid",))

FAMILIES = frozenset(
    (
        *("num_running_reqs", "num_queue_reqs", "gen_throughput", "token_usage", "cache_hit_rate"),
        *("spec_accept_length", "spec_num_draft_tokens", "spec_verify_calls_total", "generation_tokens_total"),
        *("realtime_tokens_total", "num_requests_total", "cuda_graph_passes_total", "http_requests_active"),
        *("time_to_first_token_seconds_bucket", "inter_token_latency_seconds_bucket"),
    )
)
"""The samples that ddtune reads, without the engine's prefix (``sglang:``, in some versions ``sglang_``)."""


@dataclass(frozen=True)
class Sample:
    """One number of one series; never NaN."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Scrape:
    """One answer of ``/metrics``. ``lines`` counts the samples in it, those that ddtune does not read too."""

    at: float
    samples: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)
    lines: int = 0

    @property
    def unknown_names(self) -> bool:
        """Whether there are metrics and none has a name that ddtune knows, as from an engine of another version."""
        return self.lines > 0 and not self.samples

    def series(self, name: str, **labels: str) -> tuple[Sample, ...]:
        """The series of ``name`` with these labels, one for each data-parallel rank.

        Every tensor-parallel rank may report the same number; the lowest one speaks for the others.
        """
        leaders: dict[frozenset[tuple[str, str]], Sample] = {}
        for sample in sorted(self.samples.get(name, ()), key=_rank_order):
            if all(sample.labels.get(key) == value for key, value in labels.items()):
                leaders.setdefault(_identity(sample.labels), sample)
        return tuple(leaders.values())

    def total(self, name: str, **labels: str) -> float | None:
        """The sum over the series, or None when there is none."""
        return total(sample.value for sample in self.series(name, **labels))

    def mean(self, name: str) -> float | None:
        """The mean over the series, or None when there is none."""
        return mean(sample.value for sample in self.series(name))

    def largest(self, name: str) -> float | None:
        """The largest of the series, or None when there is none."""
        return max((sample.value for sample in self.series(name)), default=None)

    def buckets(self, name: str) -> dict[float, float]:
        """A histogram's cumulative counts by upper bound, summed over the series."""
        counts: dict[float, float] = {}
        for sample in self.series(f"{name}_bucket"):
            bound = _number(sample.labels.get("le", ""))
            if bound is not None:
                counts[bound] = counts.get(bound, 0.0) + sample.value
        return counts


def parse(text: str, at: float = 0.0, lines: int = 0) -> Scrape:
    """Read exposition text. A line that cannot be read, and a value that is no number, is left out.

    ``lines`` is how many samples the engine gave where ``text`` holds only some of them.
    """
    samples: dict[str, list[Sample]] = {}
    whole, lines = lines, 0
    for line in text.splitlines():
        if not line or line[0] in "# \t":
            continue
        lines += 1
        name = _PREFIX.sub("", line.partition("{")[0].partition(" ")[0])
        if name in FAMILIES and _PREFIX.match(line):
            samples.setdefault(name, []).extend(_read(line))
    return Scrape(at, {name: tuple(found) for name, found in samples.items() if found}, max(whole, lines))


def _read(line: str) -> Iterable[Sample]:
    labelled, brace, rest = line.rpartition("}")
    series, _, value = (labelled + brace, "", rest) if brace else line.partition(" ")
    # A value, and in some versions the time of it.
    parts = value.split()
    number = _number(parts[0]) if len(parts) in (1, 2) and "_" not in parts[0] else None
    labels = None if number is None else _labels(series)
    if number is not None and labels is not None and math.isfinite(number):
        yield Sample(labels, number)


@lru_cache(4096)
def _labels(series: str) -> Mapping[str, str] | None:
    """The labels of a series, which is the same at each scrape; None when it cannot be read."""
    try:
        found = [sample for family in text_string_to_metric_families(series + " 0\n") for sample in family.samples]
    except (ValueError, IndexError, KeyError):
        return None
    return found[0].labels if len(found) == 1 else None


def _identity(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(item for item in labels.items() if not _of_one_worker(item[0]))


def _of_one_worker(label: str) -> bool:
    return label in _INSTANCE or (label.endswith("_rank") and label != "dp_rank")


def _rank_order(sample: Sample) -> tuple[int, ...]:
    ranks = (sample.labels.get(label, "0") for label in ("tp_rank", "pp_rank", "moe_ep_rank"))
    return tuple(int(rank) if rank.isascii() and rank.isdigit() else 0 for rank in ranks)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value
