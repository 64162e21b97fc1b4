"""The one immutable picture that the dashboard and the command line show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ddtune.engine.model import Incident, LogLine
from ddtune.gpu.model import Alarm, GpuReading
from ddtune.gpu.xid import XidEvent


@dataclass(frozen=True)
class Link:
    """The SSH link. ``state`` is ``connecting``, ``up``, ``lost`` or ``refused``; ``error`` is one sentence."""

    state: str
    rtt_ms: float | None = None
    error: str | None = None
    since: float | None = None


@dataclass(frozen=True)
class ServiceReading:
    """The service as read from the host.

    ``state`` is systemd's (``active``, ``activating``, ``inactive``, ``failed`` …); ``health`` is one word:
    ``serving``, ``idle``, ``starting``, ``busy``, ``dead``, ``down`` or ``unknown``. ``last_proof_s`` is the age of the
    last sign that a generation was completed. ``profile``, ``release`` and ``standing`` are of what runs, by the main
    process's argv, and ``None`` where the host is not adopted or the argv matches no release. ``health_why`` says
    in a few words what the health rests on; ``frozen`` names fields that keep an old value while nothing runs.
    ``launched``: whether ddtune's launcher made this start, None where that is not known or not adopted. ``model`` is
    what this start serves by its own word. ``settled``: the API was asked, and its counters, where it has any, were
    read twice, so that no gauge stands in for them.
    """

    unit: str | None = None
    state: str | None = None
    sub_state: str | None = None
    health: str = "unknown"
    health_why: str = ""
    last_proof_s: float | None = None
    profile: str | None = None
    release: str | None = None
    standing: str | None = None
    stable_profile: str | None = None
    previous_profile: str | None = None
    accept_length: float | None = None
    tokens_per_s: float | None = None
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
    main_pid: int | None = None
    invocation: str | None = None
    restarts: int | None = None
    argv: tuple[str, ...] = ()
    schedulers: int | None = None
    schedulers_expected: int | None = None
    accept_source: str | None = None
    frozen: tuple[str, ...] = ()
    phase: str | None = None
    engine_version: str | None = None
    graph_share: float | None = None
    launched: bool | None = None
    model: str | None = None
    settled: bool = False


@dataclass(frozen=True)
class Ages:
    """Seconds since each part was read; ``None`` when it never was."""

    gpus: float | None = None
    engine: float | None = None
    unit: float | None = None


@dataclass(frozen=True)
class Watch:
    """A headless watch of the host, as it was last heard of: by whom, and how many seconds ago. Not ``alive``: dead."""

    who: str
    every_s: float
    age_s: float
    alive: bool
    mode: str = "acts"
    """Whether it ``acts``, only ``tells``, or only says what it would tell (``dry``)."""


@dataclass(frozen=True)
class Snapshot:
    """Everything known of a host at ``at`` (seconds since the epoch, operator's clock).

    ``txn`` is the host's txn.json as read (docs/json.md) or ``None``; ``notes`` are sentences about what could not be
    read, such as a journal without permission, and about what the GPUs report. ``log`` is the newest tail of unit and
    kernel lines. ``history`` holds the newest lines of the host's history, oldest first; ``boottime`` is the host's
    clock, in which the times of ``txn`` are, when that was read. ``xids`` is None where no source of them can be
    read. ``unreadable`` names the journals (``unit``, ``kernel``) that this login may not read.
    """

    host: str
    at: float
    link: Link
    gpus: tuple[GpuReading, ...] = ()
    gpu_source: str | None = None
    service: ServiceReading = ServiceReading()
    ages: Ages = Ages()
    txn: dict[str, Any] | None = None
    incidents: tuple[Incident, ...] = ()
    log: tuple[LogLine, ...] = ()
    notes: tuple[str, ...] = ()
    simulated: bool = False
    adopted: bool = False
    tick_s: float = 1.0
    history: tuple[dict[str, Any], ...] = ()
    boottime: float | None = None
    alarms: tuple[Alarm, ...] = ()
    xids: tuple[XidEvent, ...] | None = None
    watches: tuple[Watch, ...] = ()
    """Who does most first: a living one before a dead one, one that acts before one that tells, dry runs last."""
    unreadable: tuple[str, ...] = ()

    @property
    def watch(self) -> Watch | None:
        """The one that does most."""
        return self.watches[0] if self.watches else None
