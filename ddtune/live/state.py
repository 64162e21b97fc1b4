"""What is known of a host, as one frozen value that each line of the collector changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ddtune.engine.exposition import Scrape
from ddtune.engine.model import EngineReading, Incident, LogLine
from ddtune.engine.phases import Start
from ddtune.engine.server_info import Loads, ServerInfo
from ddtune.gpu.model import GpuReading
from ddtune.gpu.xid import Xids
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
class Ran:
    """What the present run is of: its profile, and the axes in which it differs from stable."""

    profile: str | None = None
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class State:
    """Everything known of one host. Times are seconds since the epoch on the operator's clock, as lines came in.

    ``since_start`` holds the log of the unit's present run, from which incidents are told. ``start``, ``compiled_at``
    (it compiled kernels) and ``stall`` (when, and how many seconds its scheduler was silent by its own word) are on the
    host's clock; ``clock_offset_s`` added to that is ours. ``unreadable`` names journals that may not be read.
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
    gpu_error: str | None = None
    xids: Xids = field(default_factory=Xids)
    unreadable: frozenset[str] = frozenset()
    heard_at: float = 0.0
    clock_offset_s: float = 0.0
    unit: Mapping[str, Any] = field(default_factory=dict)
    unit_at: float | None = None
    ddtune: Mapping[str, Any] = field(default_factory=dict)
    api: Api = Api()
    engine: Engine = Engine()
    run: Run = Run()
    ran: Ran = Ran()
    info: ServerInfo | None = None
    info_run: str | None = None
    start: Start | None = None
    compiled_at: float | None = None
    stall: tuple[float, float] | None = None
    log: tuple[LogLine, ...] = ()
    since_start: tuple[LogLine, ...] = ()
    cursors: Mapping[str, str] = field(default_factory=dict)
    incidents: tuple[Incident, ...] = ()
    notes: tuple[str, ...] = ()
