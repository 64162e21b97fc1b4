"""What the engine's log and API say, as frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """Phases of a start, in order. ``READY`` means that a generation was completed and checked."""

    LAUNCH = "launch"
    WEIGHTS = "weights"
    GRAPHS = "graphs"
    WARMUP = "warmup"
    READY = "ready"


@dataclass(frozen=True)
class LogLine:
    """One line of the unit's or the kernel's journal, with every control character made visible or removed.

    ``at`` is seconds since the epoch as the journal has it; ``rank`` such as ``TP3``; ``fields`` holds the
    ``key: value`` pairs of a decode or prefill line, by the engine's own names. ``fatal`` is the cause that the line is
    a fatal one for. ``count`` is how many lines of its kind it stands for, ``folded`` how many lines of a trace.
    """

    at: float
    text: str
    source: str = "unit"
    rank: str | None = None
    kind: str = "other"
    fields: tuple[tuple[str, str], ...] = ()
    cursor: str | None = None
    severity: str = "info"
    pid: int | None = None
    fatal: str | None = None
    count: int = 1
    folded: int = 0


@dataclass(frozen=True)
class Evidence:
    """One line that an outcome rests on. ``source`` is ``unit``, ``kernel``, ``gate``, ``guard`` or ``systemd``."""

    at: float
    source: str
    text: str
    rank: str | None = None


@dataclass(frozen=True)
class Incident:
    """One classified fault; ``cause`` is one of the classes in docs/json.md. ``note`` is for the reader.

    ``rank`` is the first bad one and ``ranks`` all that named the same cause, in order. ``phase`` is how far the run
    had come (a phase of a start, or ``serving``) and ``elapsed_s`` how long it had run. ``confidence`` is ``sure``,
    ``likely`` or ``possible``; ``changed`` what differs from stable; ``action`` what only a person can do.
    """

    cause: str
    at: float
    evidence: tuple[Evidence, ...]
    rank: str | None = None
    gpu: int | None = None
    note: str = ""
    ranks: tuple[str, ...] = ()
    phase: str | None = None
    elapsed_s: float | None = None
    confidence: str = "likely"
    xids: tuple[int, ...] = ()
    profile: str | None = None
    changed: tuple[str, ...] = ()
    action: str | None = None


@dataclass(frozen=True)
class EngineReading:
    """One reading of ``/metrics`` and ``/v1/loads``. Rates are of the engine's own clock; ``None`` is not available.

    ``accept_length`` is of the last interval, never the cumulative one, and ``accept_source`` says where it is from:
    ``counters``, ``gauge`` or ``log``. ``frozen`` names fields that keep an old value while the engine is idle.
    ``graph_share`` is the share of decode passes that replayed a captured graph.
    ``waiting`` counts generation requests that the HTTP server holds. ``ttft`` and ``itl`` are p50 and p95 in seconds
    from the histograms' differences. ``awaits``: the engine has counters, and they do not say yet what they will with
    the next scrapes; until then a gauge stands in. ``None`` without counters.
    """

    at: float
    tokens_per_s: float | None = None
    accept_length: float | None = None
    running: int | None = None
    queued: int | None = None
    max_running: int | None = None
    kv_usage: float | None = None
    cache_hit: float | None = None
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    itl_p50_s: float | None = None
    itl_p95_s: float | None = None
    graphs_in_use: bool | None = None
    requests_total: float | None = None
    accept_source: str | None = None
    frozen: tuple[str, ...] = ()
    waiting: int | None = None
    graph_share: float | None = None
    awaits: bool | None = None
