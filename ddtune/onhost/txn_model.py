"""The transaction as it lies in txn.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PROTO = 1

IDLE = "IDLE"
ARMED = "ARMED"
TRIAL = "TRIAL"
SOAK = "SOAK"
COMMITTING = "COMMITTING"
COMMITTED = "COMMITTED"
ROLLED_BACK = "ROLLED_BACK"
ROLLBACK_FAILED = "ROLLBACK_FAILED"
HOST_ACTION_REQUIRED = "HOST_ACTION_REQUIRED"

LIVE = (ARMED, TRIAL, SOAK)
"""States in which nothing is decided yet, so that deadlines and the lease count."""
TRYING = (TRIAL, SOAK)
"""States in which a start of the unit may run the candidate."""
DECIDED = (COMMITTED, ROLLED_BACK, ROLLBACK_FAILED, HOST_ACTION_REQUIRED)
STATES = (*LIVE, COMMITTING, *DECIDED)

LIFTED = "lifted"
"""The instant in ``times`` from which a held trial is open to everybody."""

VISIT = "golden"
"""A visit to another release for reference answers: it is never confirmed."""
KINDS = ("switch", "restart", "rollback", VISIT)
AHEAD = ("switch", VISIT)
"""Kinds that leave what is stable; in the way of the others stands only what would make them fail."""


class TxnError(Exception):
    """txn.json is not a transaction that this version can read."""


@dataclass(frozen=True)
class Restore:
    """How far the guard is on its way back to stable.

    ``phase`` is ``stop``, ``start``, ``check``, or ``give_up`` when only stopping the unit is left; ``tries`` counts
    starts of stable, this one included; ``at`` is boottime seconds of the last change.
    """

    phase: str
    tries: int
    at: float


@dataclass(frozen=True)
class Txn:
    """One attempt to change what runs.

    Times are CLOCK_BOOTTIME seconds of the host, but for ``wall_at`` (seconds since the epoch). ``evidence`` entries:
    ``{at (epoch), source, rank, text}``. ``times`` has the instant of each step that has happened. ``settled`` means
    that nothing is left to do; until then everybody else is told busy. ``stable_invocation`` is the last start that ran
    stable under this transaction, ``forgiven`` a start of the candidate that a passing fault ended, so that it is made
    once more, ``traffic`` is ``held`` where only loopback may reach an unjudged candidate (:mod:`.traffic`), ``blamed``
    whether ``cause`` is the candidate's doing, ``action`` what a person has to do.
    """

    op: str
    kind: str
    unit: str
    owner: Mapping[str, Any] = field(hash=False)
    boot_id: str
    armed_at: float
    wall_at: float
    candidate: str
    stable: str
    lease_s: float
    lease_until: float
    confirm_deadline: float
    tries_left: int = 1
    state: str = ARMED
    candidate_profile: str | None = None
    stable_profile: str | None = None
    start_deadline_s: float | None = None
    start_deadline: float | None = None
    start_invocation: str | None = None
    trial_invocation: str | None = None
    stable_invocation: str | None = None
    forgiven: str | None = None
    ready: bool = False
    journal_cursor: str | None = None
    fatal_patterns: tuple[Mapping[str, str], ...] = field(default=(), hash=False)
    stop_grace_s: float = 5.0
    stop_timeout_s: float = 45.0
    restore_s: float = 1800.0
    api_port: int = 30000
    api_key_file: str | None = None
    canary: Mapping[str, Any] | None = field(default=None, hash=False)
    probation_s: float = 0.0
    force: bool = False
    traffic: str = "open"
    cause: str | None = None
    blamed: bool = False
    action: str | None = None
    evidence: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    restore: Restore | None = None
    settled: bool = False
    times: Mapping[str, float] = field(default_factory=dict, hash=False)
    proto: int = PROTO


_LISTS = ("fatal_patterns", "evidence")
_NUMBERS = (
    "armed_at",
    "wall_at",
    "lease_s",
    "lease_until",
    "confirm_deadline",
    "stop_grace_s",
    "stop_timeout_s",
    "restore_s",
)
_TEXTS = ("op", "kind", "unit", "boot_id", "candidate", "stable", "state")


def to_json(txn: Txn) -> dict[str, Any]:
    """``txn`` as the object that txn.json holds."""
    found = {entry.name: getattr(txn, entry.name) for entry in dataclasses.fields(Txn)}
    for name in _LISTS:
        found[name] = [dict(entry) for entry in found[name]]
    found["restore"] = dataclasses.asdict(txn.restore) if txn.restore else None
    found["times"] = dict(txn.times)
    return found


def from_json(found: Mapping[str, Any]) -> Txn:
    """The transaction in ``found``; fields of a newer version are left out. Raises TxnError."""
    names = {entry.name for entry in dataclasses.fields(Txn)}
    values = {name: value for name, value in found.items() if name in names}
    try:
        for name in _LISTS:
            values[name] = tuple(dict(entry) for entry in values.get(name, ()))
        if values.get("restore"):
            values["restore"] = Restore(**values["restore"])
        txn = Txn(**values)
        if txn.proto != PROTO:
            raise TxnError(f"txn.json has proto {txn.proto!r}; this host knows {PROTO}")
        good = (
            all(isinstance(getattr(txn, name), str) for name in _TEXTS)
            and all(isinstance(getattr(txn, name), (int, float)) for name in _NUMBERS)
            and isinstance(txn.tries_left, int)
            and isinstance(txn.times, dict)
            and isinstance(txn.owner, dict)
            and txn.state in STATES
            and txn.kind in KINDS
        )
    except (TypeError, ValueError) as error:
        raise TxnError(f"txn.json cannot be read: {error}") from error
    if not good:
        raise TxnError("txn.json has a field of a wrong type or an unknown state")
    return txn


def busy(txn: Txn | None) -> bool:
    """Nobody else may begin: something is undecided, or decided and not yet done."""
    return txn is not None and not txn.settled


def who(txn: Txn) -> str:
    """The owner in a few words."""
    name, host = txn.owner.get("who") or "someone", txn.owner.get("host")
    return f"{name}@{host}" if host else str(name)


def expired(txn: Txn, at: float) -> str | None:
    """The cause that ends ``txn`` at boottime ``at`` by time alone, or None."""
    if txn.state not in LIVE:
        return None
    if at >= txn.confirm_deadline:
        return "deadline_expired"
    if at >= txn.lease_until:
        return "lease_lost"
    if not txn.ready and txn.start_deadline is not None and at >= txn.start_deadline:
        return "start_hang"
    return None
