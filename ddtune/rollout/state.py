"""What the host says of itself, read through the helper, as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ddtune.profiles.model import Base
from ddtune.rollout.model import ReleaseRef

SETTLED_STATES = ("IDLE", "COMMITTED", "ROLLED_BACK", "ROLLBACK_FAILED", "HOST_ACTION_REQUIRED")


@dataclass(frozen=True)
class HostState:
    """The helper's ``state`` answer. ``txn`` is txn.json or None; ``raw`` is the whole answer."""

    adopted: bool
    stable: ReleaseRef
    previous: ReleaseRef
    site: Mapping[str, Any]
    base: Base | None
    txn: Mapping[str, Any] | None
    envelope: tuple[Mapping[str, Any], ...]
    quarantine: tuple[str, ...]
    releases: tuple[Mapping[str, Any], ...]
    history: tuple[Mapping[str, Any], ...]
    boottime: float | None
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def busy(self) -> Mapping[str, Any] | None:
        """The transaction that holds the host, or None."""
        return self.txn if self.txn is not None and not is_over(self.txn) else None

    def profile_of(self, release: str | None) -> str | None:
        """The profile that a release was made from, by its own record on the host."""
        for entry in self.releases:
            if entry.get("release") == release:
                name = entry.get("profile")
                return str(name) if name is not None else None
        return None

    def meta_of(self, release: str | None) -> Mapping[str, Any]:
        """The record kept beside a release, or an empty one."""
        return next((entry for entry in self.releases if entry.get("release") == release), {})


def is_over(txn: Mapping[str, Any]) -> bool:
    """Whether nothing is left to do for a transaction, neither by the operator nor by the host's guard."""
    return txn.get("state") in SETTLED_STATES and bool(txn.get("settled"))


def read_state(answer: Mapping[str, Any]) -> HostState:
    """The helper's ``state`` answer as a HostState."""
    base = answer.get("base")
    return HostState(
        adopted=bool(answer.get("adopted")),
        stable=_ref(answer.get("stable")),
        previous=_ref(answer.get("previous")),
        site=answer.get("site") or {},
        base=Base(tuple(base["argv"]), base["cwd"]) if base else None,
        txn=answer.get("txn"),
        envelope=tuple(answer.get("envelope") or ()),
        quarantine=tuple(answer.get("quarantine") or ()),
        releases=tuple(answer.get("releases") or ()),
        history=tuple(answer.get("history") or ()),
        boottime=answer.get("boottime"),
        raw=answer,
    )


def _ref(entry: Mapping[str, Any] | None) -> ReleaseRef:
    if not entry:
        return ReleaseRef(None, None)
    return ReleaseRef(entry.get("profile"), entry.get("release"))
