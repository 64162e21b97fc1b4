"""How a transaction ended: pure readings of txn.json, and the JSON shape of ``switch``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ddtune.engine.model import Evidence, Incident
from ddtune.gate.model import CheckResult
from ddtune.rollout.model import Outcome, ReleaseRef
from ddtune.rollout.state import HostState

OUTCOME_OF_STATE = {
    "COMMITTED": "committed",
    "ROLLED_BACK": "rolled_back",
    "ROLLBACK_FAILED": "rollback_failed",
    "HOST_ACTION_REQUIRED": "host_action_required",
}


def evidence_of(entries: object) -> tuple[Evidence, ...]:
    """Evidence lines of txn.json or the history; what has not that shape is left out."""
    if not isinstance(entries, list):
        return ()
    return tuple(
        Evidence(
            at=float(entry.get("at") or 0.0),
            source=str(entry.get("source") or "unknown"),
            text=str(entry.get("text") or ""),
            rank=entry.get("rank"),
        )
        for entry in entries
        if isinstance(entry, dict)
    )


def with_txn(outcome: Outcome, txn: Mapping[str, Any] | None, incident: Incident | None = None) -> Outcome:
    """The outcome completed from what the host decided; without a terminal state it is unknown.

    An ``incident`` read from the log of the same fault adds its first bad rank and what followed.
    """
    if txn is None:
        return replace(outcome, outcome="unknown", cause=outcome.cause or "link_lost")
    name = OUTCOME_OF_STATE.get(str(txn.get("state")), "unknown")
    cause = None if name == "committed" else txn.get("cause") or outcome.cause or "unknown"
    stable = outcome.target if name == "committed" else outcome.stable
    return replace(
        outcome,
        outcome=name,
        cause=cause,
        stable=stable,
        evidence=() if cause is None else _with_incident(evidence_of(txn.get("evidence")), incident),
    )


def _with_incident(evidence: tuple[Evidence, ...], incident: Incident | None) -> tuple[Evidence, ...]:
    """The host's evidence with the rank and the further lines of the same fault, as this side read them."""
    texts = {line.text for line in evidence}
    if incident is None or not any(line.text in texts for line in incident.evidence):
        return evidence
    ranked = tuple(
        replace(line, rank=line.rank or incident.rank) if line.source == "unit" else line for line in evidence
    )
    return ranked + tuple(line for line in incident.evidence if line.text not in texts)


def host_times(txn: Mapping[str, Any] | None) -> dict[str, float]:
    """Seconds that only the host can tell: from the fatal line to the rollback's begin and the unit's stop, and on.

    The fatal line's time is the journal's, brought to the host's boot clock by the two clocks that arming recorded.
    """
    txn = txn or {}
    times = dict(txn.get("times") or {})
    fatal = next((line for line in evidence_of(txn.get("evidence")) if line.source in ("unit", "kernel")), None)
    if fatal is not None and isinstance(txn.get("wall_at"), int | float):
        times["fatal"] = fatal.at - txn["wall_at"] + txn["armed_at"]
    spans = {
        "begun_to_stopped": ("rollback_begun", "rollback_stopped"),
        "begun_to_serving": ("rollback_begun", "serving"),
        "fatal_to_begun": ("fatal", "rollback_begun"),
        "fatal_to_stopped": ("fatal", "rollback_stopped"),
    }
    return {
        name: round(max(0.0, times[end] - times[start]), 3)
        for name, (start, end) in spans.items()
        if isinstance(times.get(start), int | float) and isinstance(times.get(end), int | float)
    }


def ref_json(ref: ReleaseRef) -> dict[str, str | None]:
    """``{profile, release}``."""
    return {"profile": ref.profile, "release": ref.release}


def check_json(check: CheckResult) -> dict[str, Any]:
    """``{verdict, reason, seconds, tokens, budget}``."""
    return {
        "verdict": str(check.verdict),
        "reason": check.reason,
        "seconds": round(check.seconds, 3),
        "tokens": check.tokens,
        "budget": check.budget,
    }


def outcome_json(outcome: Outcome, host: str) -> dict[str, Any]:
    """The one object that ``switch --json`` prints; listed in docs/json.md."""
    return {
        "proto": 1,
        "host": host,
        "simulated": outcome.simulated,
        "op": outcome.op,
        "outcome": outcome.outcome,
        "cause": outcome.cause,
        "message": outcome.message,
        "from": ref_json(outcome.origin),
        "to": ref_json(outcome.target),
        "stable": ref_json(outcome.stable),
        "evidence": [
            {"at": line.at, "source": line.source, "rank": line.rank, "text": line.text} for line in outcome.evidence
        ],
        "phases": dict(outcome.phases),
        "gate": {name: check_json(check) for name, check in outcome.gate.items()},
        "not_planned": dict(outcome.not_planned),
        "downtime_s": outcome.downtime_s,
        "requests_cut": outcome.requests_cut,
        "served_ungated": outcome.served_ungated,
        "own_s": outcome.own_s,
        "quarantined": outcome.quarantined,
    }


def outcome_of_abort(op: str, txn: Mapping[str, Any] | None, state: HostState, *, simulated: bool) -> Outcome:
    """How somebody else's transaction ended after it was aborted from here."""
    busy = state.busy or {}
    begun = Outcome(
        op=op,
        outcome="unknown",
        cause=None,
        origin=state.stable,
        target=ReleaseRef(busy.get("candidate_profile"), busy.get("candidate")),
        stable=state.stable,
        message=f"{op} was aborted; the stable release is {state.stable.profile or 'unnamed'}.",
        simulated=simulated,
    )
    return with_txn(begun, txn if txn and txn.get("op") == op else None)
