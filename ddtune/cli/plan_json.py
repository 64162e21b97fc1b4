"""The JSON shape of a plan: what ``switch --dry-run --json`` prints."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ddtune.rollout.model import Plan
from ddtune.rollout.outcome import ref_json


def plan_json(plan: Plan) -> dict[str, Any]:
    """One object, listed in docs/json.md."""
    return {
        "proto": 1,
        "host": plan.host,
        "simulated": plan.simulated,
        "unit": plan.unit,
        "kind": plan.kind,
        "from": ref_json(plan.origin),
        "to": ref_json(plan.target),
        "stable": ref_json(plan.stable),
        "axes": dict(plan.axes),
        "changes": list(plan.changes),
        "findings": [
            {"text": one.text, "blocks": one.blocks, "cause": one.cause, "forceable": one.forceable}
            for one in plan.findings
        ],
        "running": plan.running,
        "queued": plan.queued,
        "drain_s": plan.drain_s,
        "lease_s": plan.lease_s,
        "confirm_deadline_s": plan.confirm_deadline_s,
        "soak_s": plan.soak_s,
        "gate": list(plan.gate),
        "checks": [{"stage": one.stage, "name": one.name, "tokens": one.tokens} for one in plan.checks],
        "reference": plan.reference,
        "not_planned": dict(plan.not_planned),
        "traffic": plan.traffic,
        "canary": None if plan.canary is None else asdict(plan.canary),
        "expected_start_s": plan.expected_start_s,
    }
