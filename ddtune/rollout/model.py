"""What a change of profile says before, while and after it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ddtune.engine.model import Evidence
from ddtune.gate.model import CheckResult, GateEvent
from ddtune.gate.plan import Planned


@dataclass(frozen=True)
class ReleaseRef:
    """A release with the profile's name that it was made from; either may be unknown."""

    profile: str | None
    release: str | None


@dataclass(frozen=True)
class Finding:
    """One thing that preflight found. ``blocks`` refuses the switch; ``cause`` is an incident class."""

    text: str
    blocks: bool = False
    cause: str | None = None
    forceable: bool = False


@dataclass(frozen=True)
class PlanCanary:
    """What the graph canary last said of a budget on this build; ``verdict`` None where it was not asked yet."""

    budget: int
    verdict: str | None = None
    reason: str = ""
    at: float | None = None


@dataclass(frozen=True)
class Plan:
    """What a switch would do, read from the host, before anything is touched.

    ``expected_start_s`` is from the stop to a checked generation, as the host's last starts took, and nobody is served
    meanwhile; ``expected_start_why`` says which starts.
    ``checks`` are the gate's by stage, with their token budgets; ``reference`` says whose answers the candidate's are
    compared with.
    """

    host: str
    unit: str
    kind: str
    origin: ReleaseRef
    target: ReleaseRef
    stable: ReleaseRef
    changes: tuple[str, ...]
    findings: tuple[Finding, ...]
    running: int | None
    queued: int | None
    drain_s: float
    lease_s: float
    confirm_deadline_s: float
    soak_s: float
    expected_start_s: float | None
    gate: tuple[str, ...]
    not_planned: Mapping[str, str]
    traffic: str
    axes: Mapping[str, Any] = field(default_factory=dict)
    simulated: bool = False
    canary: PlanCanary | None = None
    expected_start_why: str = ""
    checks: tuple[Planned, ...] = ()
    reference: str = ""

    @property
    def refused(self) -> Finding | None:
        """The first finding that blocks, or None."""
        return next((finding for finding in self.findings if finding.blocks), None)


@dataclass(frozen=True)
class Progress:
    """One step forward of a running transaction, for the screen and the terminal.

    ``lease_in_s`` is seconds until the host goes back by itself. ``check`` is one that is over,
    ``gate`` where a gate stands now; they never come together.
    """

    phase: str
    seconds: float
    text: str = ""
    done: bool = False
    lease_in_s: float | None = None
    check: CheckResult | None = None
    gate: GateEvent | None = None


@dataclass(frozen=True)
class Outcome:
    """How a transaction ended; the shape of ``switch --json`` (docs/json.md).

    ``quarantined``: after the end the host has the candidate in quarantine, which it puts nobody in for some causes.
    """

    op: str | None
    outcome: str
    cause: str | None
    origin: ReleaseRef
    target: ReleaseRef
    stable: ReleaseRef
    message: str = ""
    evidence: tuple[Evidence, ...] = ()
    phases: Mapping[str, Any] = field(default_factory=dict)
    gate: Mapping[str, CheckResult] = field(default_factory=dict)
    not_planned: Mapping[str, str] = field(default_factory=dict)
    downtime_s: float | None = None
    requests_cut: int | None = None
    served_ungated: int | None = None
    own_s: float | None = None
    simulated: bool = False
    quarantined: bool = False
