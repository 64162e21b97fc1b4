"""What is known of a host, as one frozen value that each line of the collector changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ddtune.engine.exposition import Scrape
from ddtune.engine.model import EngineReading, Incident, LogLine
from ddtune.engine.server_info import Loads
from ddtune.gpu.model import GpuReading
from ddtune.live.snapshot import Link


@dataclass(frozen=True)
class Api:
    """What the API's port last did. ``port`` is ``open``, ``silent`` (nothing answers) or ``refused``."""

    port: str | None = None
    status: int | None = None
    at: float | None = None
    answered_at: float | None = None


@dataclass(frozen=True)
class Engine:
    """Counters and what they say. ``proof_at``: a request was completed; ``moved_at``: some token was generated."""

    scrapes: tuple[Scrape, ...] = ()
    reading: EngineReading | None = None
    loads: Loads | None = None
    at: float | None = None
    proof_at: float | None = None
    moved_at: float | None = None
    running_since: float | None = None


@dataclass(frozen=True)
class Run:
    """One run of the main process, named by systemd's InvocationID and the process id."""

    invocation: str = ""
    pid: int = 0
    seen_at: float | None = None
    had_all: bool = False
    was_open: bool = False
    was_ready: bool = False


@dataclass(frozen=True)
class State:
    """Everything known of one host. Times are seconds since the epoch on the operator's clock, as lines came in.

    ``since_start`` holds the log of the unit's present run, from which incidents are told.
    """

    host: str
    simulated: bool = False
    clock_scale: float = 1.0
    tick_s: float = 1.0
    link: Link = field(default_factory=lambda: Link("connecting"))
    hello: Mapping[str, Any] = field(default_factory=dict)
    gpus: tuple[GpuReading, ...] = ()
    gpu_source: str | None = None
    gpus_at: float | None = None
    unit: Mapping[str, Any] = field(default_factory=dict)
    unit_at: float | None = None
    ddtune: Mapping[str, Any] = field(default_factory=dict)
    api: Api = Api()
    engine: Engine = Engine()
    run: Run = Run()
    log: tuple[LogLine, ...] = ()
    since_start: tuple[LogLine, ...] = ()
    cursors: Mapping[str, str] = field(default_factory=dict)
    incidents: tuple[Incident, ...] = ()
    notes: tuple[str, ...] = ()
