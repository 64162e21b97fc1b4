"""The graph canary on a host: asked, judged, and kept in the host's envelope as evidence of its own kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.gate.graph_canary import LEAST_FREE_MIB, CanaryReport, judge
from ddtune.profiles.envelope import CANARY
from ddtune.rollout.link import HostLink
from ddtune.rollout.units import adopted_unit

LIMIT_S = 300.0
_SLACK_S = 60.0


@dataclass(frozen=True)
class CanaryDone:
    """``recorded`` says whether the host keeps the outcome."""

    unit: str
    report: CanaryReport
    build: str | None
    arch: str | None
    recorded: bool


async def run_canary(config: HostConfig, budgets: Sequence[int], batches: Sequence[int]) -> CanaryDone:
    """Run it beside the service. Raises Ambiguous, Refused, the helper's errors and Unreachable."""
    async with HostLink(config, await adopted_unit(config)) as link:
        site = (await link.call("state", limit=1)).get("site") or {}
        answer = await link.once(
            "canary",
            timeout=LIMIT_S + _SLACK_S,
            budgets=list(budgets),
            batches=list(batches),
            least_free_mib=LEAST_FREE_MIB,
            limit_s=LIMIT_S,
            api_port=config.api_port,
            api_key_file=config.api_key_file,
        )
        report = judge(answer, budgets)
        recorded = False
        if report.refused is None:
            recorded = bool((await link.call("record", entry=entry(report, site))).get("added"))
    return CanaryDone(link.unit, report, site.get("build"), site.get("arch"), recorded)


def entry(report: CanaryReport, site: Mapping[str, Any]) -> dict[str, Any]:
    """The line of the host's envelope."""
    return {
        "kind": CANARY,
        "op": None,
        "arch": site.get("arch"),
        "build": site.get("build"),
        "backend": report.backend,
        "kernel": report.kernel,
        "shapes": [dict(shape) for shape in report.shapes],
        "shape_source": report.shape_source,
        "budgets": {
            str(one.budget): {"verdict": one.verdict.value, "reason": one.reason[:300]} for one in report.budgets
        },
    }
