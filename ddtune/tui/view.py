"""What one painting of the screens is made from: an immutable moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ddtune.gpu.reading import arch
from ddtune.live.series import Series
from ddtune.live.snapshot import Ages, Snapshot
from ddtune.live.worth import Worth, step_s, worth
from ddtune.profiles.envelope import Entry
from ddtune.profiles.model import NO_SPECULATION, Profile
from ddtune.rollout.model import Outcome, Plan, Progress

STALE_TICKS = 3
SHOWN_S = 0.1
"""The least difference of an age that is shown."""
LOUD_STATES = {"ROLLBACK_FAILED": "ROLLBACK FAILED", "HOST_ACTION_REQUIRED": "HOST ACTION REQUIRED"}


@dataclass(frozen=True)
class Step:
    """A progress of a transaction and when it came, in monotonic seconds."""

    at: float
    progress: Progress


@dataclass(frozen=True)
class Run:
    """A change that this dashboard started. It goes on when its screens are closed.

    ``error`` is one sentence when it broke without an outcome, ``note`` one about what was asked of it meanwhile. Times
    are monotonic seconds.
    """

    kind: str
    began: float
    plan: Plan | None = None
    steps: tuple[Step, ...] = ()
    outcome: Outcome | None = None
    error: str | None = None
    ended: float | None = None
    note: str = ""

    @property
    def armed(self) -> bool:
        """Whether the host may have been told of it."""
        return any(step.progress.phase == "arm" for step in self.steps)

    @property
    def active(self) -> bool:
        """Whether it still goes on."""
        return self.ended is None

    @property
    def target(self) -> str | None:
        """The profile that it leads to, as far as known."""
        return self.plan.target.profile if self.plan else None


@dataclass(frozen=True)
class Replay:
    """Where in a recording the moment lies. ``speed`` is how many of its seconds pass in one of ours."""

    position_s: float
    length_s: float
    speed: float
    playing: bool


@dataclass(frozen=True)
class View:
    """``now`` is in monotonic seconds; ``unlocked_s`` is None when locked and infinite when always writable.

    ``boottime`` is the host's clock at ``now``, counted on from when it was read. ``series`` goes on behind the moment:
    what is drawn of it ends at the snapshot's time. ``envelope`` holds the known outcomes that came with ddtune.
    """

    snapshot: Snapshot
    now: float
    unlocked_s: float | None = None
    protected: bool = False
    run: Run | None = None
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    boottime: float | None = None
    paused: bool = False
    replay: Replay | None = None
    series: Series = field(default_factory=Series, compare=False)
    envelope: tuple[Entry, ...] = ()

    @property
    def link_up(self) -> bool:
        """Whether the host can be asked now."""
        return self.snapshot.link.state == "up"

    @property
    def writable(self) -> bool:
        """Whether changes are allowed, whatever the link does."""
        return self.unlocked_s is not None

    @property
    def txn(self) -> Mapping[str, Any] | None:
        """The transaction that holds the host, or None."""
        txn = self.snapshot.txn
        return txn if txn is not None and not txn.get("settled") else None

    @property
    def expected_accept(self) -> float | None:
        """The accept length that the running profile is expected to have."""
        return self.profile.expect.accept_length if self.profile else None

    @property
    def profile(self) -> Profile | None:
        """The running profile, where it is known here."""
        return self.profiles.get(self.snapshot.service.profile or "")

    @property
    def wants_graphs(self) -> bool | None:
        """Whether the running profile is meant to use CUDA graphs."""
        wanted = self.profile.axes.get("graphs") if self.profile else None
        return wanted if isinstance(wanted, bool) else None

    @property
    def step_s(self) -> float | None:
        """Seconds of a decode step now; without speculation a step makes one token of each request."""
        service = self.snapshot.service
        plain = self.profile is not None and self.profile.axes.get("algorithm") == NO_SPECULATION
        return step_s(service.running, 1.0 if plain else service.accept_length, service.tokens_per_s)

    @property
    def worth(self) -> tuple[Worth, ...]:
        """What each other budget would be worth."""
        service, gpus = self.snapshot.service, self.snapshot.gpus
        kind = next((arch(gpu) for gpu in gpus if gpu.compute_capability), None)
        return worth(service.running, service.tokens_per_s, self.profile, self.profiles, self.envelope, kind)

    def until(self, name: str) -> float | None:
        """Seconds until a time of the host's transaction, such as ``lease_until``; None when not known."""
        at = (self.snapshot.txn or {}).get(name)
        if self.boottime is None or not isinstance(at, int | float):
            return None
        return max(0.0, at - self.boottime)


def is_stale(snapshot: Snapshot, age_s: float | None) -> bool:
    """Whether a reading is older than three ticks, or was never made."""
    return age_s is None or age_s > STALE_TICKS * snapshot.tick_s


def oldest_s(snapshot: Snapshot) -> float | None:
    """The age of the oldest part of the picture; None when nothing was read."""
    ages = snapshot.ages
    known = [age for age in (ages.gpus, ages.engine, ages.unit) if age is not None]
    return max(known) if known else None


def aged(snapshot: Snapshot, now: float) -> Snapshot:
    """The snapshot as it must be shown at ``now`` (seconds since the epoch) when no newer one came."""
    late = now - snapshot.at
    if late < SHOWN_S:
        return snapshot
    ages, proof = snapshot.ages, snapshot.service.last_proof_s
    older = Ages(*(None if age is None else age + late for age in (ages.gpus, ages.engine, ages.unit)))
    service = replace(snapshot.service, last_proof_s=None if proof is None else proof + late)
    return replace(snapshot, ages=older, service=service, at=now)
