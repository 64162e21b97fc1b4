"""The arm of a transaction: what was planned, asked of the host as it is by now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ddtune.config.model import Limits
from ddtune.engine.fatal import FATAL_PATTERNS
from ddtune.rollout.errors import Refused
from ddtune.rollout.link import HostLink
from ddtune.rollout.model import Plan
from ddtune.rollout.owner import owner
from ddtune.rollout.plan import Prepared

PATTERNS = [{"cause": cause, "regex": regex} for cause, regex in FATAL_PATTERNS]


async def arm(
    link: HostLink, prepared: Prepared, limits: Limits, candidate: str | None, canary: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The host's answer to ``arm``. Raises Refused where another release is stable than when this was planned."""
    # A host of an older ddtune knows no such field, and holds nothing.
    traffic: dict[str, Any] = {"traffic": "held"} if prepared.plan.traffic == "held" else {}
    answer = await link.call(
        "arm",
        op=prepared.op,
        kind=prepared.plan.kind,
        owner=owner(),
        candidate=candidate,
        lease_s=limits.lease_s,
        start_deadline_s=limits.start_deadline_s,
        confirm_deadline_s=limits.confirm_deadline_s,
        tries=2,
        fatal_patterns=PATTERNS,
        canary=canary,
        stop_grace_s=limits.stop_grace_s,
        stop_timeout_s=limits.stop_timeout_s,
        restore_s=limits.start_deadline_s,
        probation_s=limits.probation_s,
        api_port=link.config.api_port,
        api_key_file=link.config.api_key_file,
        force=prepared.force,
        **traffic,
    )
    moved = moved_on(link.config.name, prepared.plan, answer.get("txn") or {})
    if moved is not None:
        await link.call("abort", op=prepared.op)
        raise moved
    return answer


def moved_on(host: str, plan: Plan, txn: Mapping[str, Any]) -> Refused | None:
    """A plan may wait long for its yes. Where somebody else has committed meanwhile it is of a host that is no more,
    and a restart or a rollback of it would take their commit back unsaid.
    """
    planned, found = plan.stable, txn.get("stable")
    if found is None or found == planned.release:
        return None
    now, then = txn.get("stable_profile") or str(found)[:12], planned.profile or str(planned.release)[:12]
    return Refused(
        "busy",
        f"{now} has become the stable release of {host} since this was planned (it was {then}), so nothing was"
        " changed: look at it and plan again.",
    )
