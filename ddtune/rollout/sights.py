"""What a watch makes of what it sees: pure decisions over canaries, snapshots and the host's history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddtune.engine.model import Incident
from ddtune.live.snapshot import Snapshot
from ddtune.rollout.ending import ENDS

SURE = 2
"""Canaries in a row that must be bad: one alone may be an accident of load."""
AGAIN_S = 3600.0
"""Seconds in which a watch acts once on a host at most: what does not help once is a person's."""
NOBODY = frozenset({"xid_hardware", "gpu_lost", "nvls_fabric", "residue", "port_in_use", "disk_full", "link_lost"})
"""Causes that no start of any release can cure."""
BLIND_S = 120.0


@dataclass(frozen=True)
class Sight:
    """One canary, or what many readings show. ``cause`` is None where it was answered rightly, else an incident class;
    ``at`` is epoch seconds, ``accept_length`` of a canary its tokens per verify call.
    """

    at: float
    cause: str | None
    text: str
    accept_length: float | None = None


@dataclass(frozen=True)
class Notice:
    """One thing to tell, once. ``key`` names it for good; ``kind`` is ``end``, ``incident`` or ``watch``."""

    key: str
    kind: str
    title: str
    body: str


def late_fault(sights: Sequence[Sight]) -> Sight | None:
    """The fault that the last canaries agree on, or None."""
    last = sights[-SURE:]
    return last[-1] if len(last) == SURE and all(sight.cause for sight in last) else None


def hang_or_load(snapshot: Snapshot | None, began_at: float) -> str:
    """What a canary that never came back means: with tokens counted meanwhile it only waited behind others."""
    service = snapshot.service if snapshot else None
    if service is None or snapshot is None or snapshot.link.state != "up":
        return "link_lost"
    moving = (service.tokens_per_s or 0.0) > 0 or (
        service.last_proof_s is not None and snapshot.at - service.last_proof_s > began_at
    )
    return "slow" if moving and service.health not in ("dead", "down") else "hang"


def action(cause: str, standing: str | None, previous: str | None, acted_at: float | None, now: float) -> str | None:
    """``rollback``, ``restart``, or None where only a person can help.

    A release in probation goes back to the one before it; one that is proven is started again. Once in ``AGAIN_S``.
    """
    if cause in NOBODY or cause in ("slow", "drift") or (acted_at is not None and now - acted_at < AGAIN_S):
        return None
    if standing in ("probation", "unproven", "failed") and previous is not None:
        return "rollback"
    return "restart"


def of_incident(host: str, incident: Incident) -> Notice:
    """A classified fault of the service's log or of a GPU."""
    where = f" ({incident.rank})" if incident.rank else ""
    seen = [line.text for line in incident.evidence[:3]]
    changed = [f"differs from stable: {', '.join(incident.changed)}"] if incident.changed else []
    return Notice(
        f"incident {incident.cause} {int(incident.at)}",
        "incident",
        f"{host}: {incident.cause}{where}",
        "\n".join([*seen, *changed, *([incident.action] if incident.action else [])]) or incident.cause,
    )


def of_sight(host: str, sight: Sight, does: str | None) -> Notice:
    """A late fault that no line of a log shows."""
    then = {
        "rollback": "ddtune goes back to the release before it.",
        "restart": "ddtune starts the same release again.",
        None: "ddtune does nothing more: a person must look.",
    }[does]
    text = f"{sight.text} {then}"
    return Notice(f"incident {sight.cause} {int(sight.at)}", "incident", f"{host}: {sight.cause}", text)


def of_end(host: str, line: Mapping[str, Any]) -> Notice | None:
    """The end of a transaction as the history has it; None for any other line."""
    event = str(line.get("event"))
    if event not in ENDS and event != "late_crash":
        return None
    target, owner = line.get("to") or {}, line.get("owner") or {}
    cause = f" ({_flat(line['cause'])})" if line.get("cause") else ""
    name = _flat(target.get("profile") or str(target.get("release") or "")[:12])
    by = f"by {_flat(owner.get('who'))} on {_flat(owner.get('host'))}. " if owner.get("who") else ""
    return Notice(
        f"end {line.get('op')} {event}",
        "end",
        f"{host}: {event.replace('_', ' ')}{cause}",
        f"{_flat(line.get('kind') or event)} to {name} {by}{_flat(line.get('text') or '')}".strip(),
    )


def _flat(value: object) -> str:
    """What others have written as one line: no name of theirs begins a sentence of ddtune's."""
    return " ".join(str(value).split())


def ends(host: str, history: Iterable[Mapping[str, Any]]) -> list[Notice]:
    """The ends in ``history``, oldest first."""
    return [notice for line in history if (notice := of_end(host, line)) is not None]


def since_told(
    host: str, history: Sequence[Mapping[str, Any]], is_told: Callable[[Notice], bool]
) -> Sequence[Mapping[str, Any]]:
    """The lines behind the last end that was told; none where no end was, for what was before a watch is no news."""
    for number in range(len(history) - 1, -1, -1):
        notice = of_end(host, history[number])
        if notice is not None and is_told(notice):
            return history[number + 1 :]
    return ()


def blind(host: str, at: float, for_s: float, why: str) -> Notice | None:
    """A host of which nothing was seen ``for_s`` seconds, since ``at`` (epoch seconds), that is watched no more."""
    if for_s < BLIND_S:
        return None
    text = f"nothing of {host} was seen for {for_s:.0f} s: {why or 'no answer'}"
    return Notice(f"incident link_lost {int(at)}", "incident", f"{host}: link_lost", text)
