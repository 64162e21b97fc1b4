"""Whole gates against the simulated engine in this process, on a clock that costs nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ddtune.gate import plan as planning
from ddtune.gate import runner
from ddtune.gate.baseline import Baseline
from ddtune.gate.isolation import ALLOWED_MODULES, Isolation
from ddtune.gate.model import CheckResult, GateReport, Verdict
from ddtune.gate.process_facts import Expected, Facts
from ddtune.gate.reference import Reference
from ddtune.gate.sandboxed import solve
from ddtune.profiles.model import GateSizes
from tests.unit.virtual import VirtualService, in_virtual_time

PRODUCTION = GateSizes(concurrency=(1, 2, 8, 32, 128))


class Trusting(Isolation):
    """Runs the embedded engine's own solutions in this process: for engines that are known to be sound."""

    def run(self, code: str, function: str, inputs: list[list[Any]], *_: Any, **__: Any) -> Mapping[str, Any]:
        return solve({"code": code, "function": function, "inputs": inputs, "modules": list(ALLOWED_MODULES)})


TRUSTING = Trusting("bubblewrap")


@dataclass(frozen=True)
class Judged:
    """One gate: its report, and what it took up to its end (the baseline apart)."""

    report: GateReport
    seconds: float
    requests: int
    tokens: int

    @property
    def failed(self) -> CheckResult | None:
        return self.report.failed

    @property
    def caught(self) -> str | None:
        """The check that did not pass, with ``?`` where it was inconclusive; None where all passed."""
        bad = self.failed
        return None if bad is None else bad.name + ("" if bad.verdict is Verdict.FAIL else "?")


async def alive() -> Facts:
    return Facts(active_state="active", schedulers_alive=8)


async def judge(
    scenario: str,
    *,
    seed: int,
    stable: str = "",
    sizes: GateSizes = PRODUCTION,
    isolation: Isolation | None = TRUSTING,
    budget: int | None = 8,
    flags: str = "",
    reference: Reference | None = None,
    stages: tuple[str, ...] = ("quick", "full", "soak"),
) -> Judged:
    """A baseline on an engine of ``stable``'s kind, then the stages on one of ``scenario``, until one does not pass."""
    loop = asyncio.get_running_loop()
    clock: Callable[[], float] = loop.time
    before = VirtualService(stable, seed=seed)
    measured: Baseline = await runner.baseline(
        before.send, sizes, nonce=f"{seed:04x}-gate", speculative=True, isolation=isolation, reference=reference,
        clock=clock,
    )  # fmt: skip
    assert measured.problems == ()
    service = VirtualService(scenario, seed=seed + 1, budget=budget, flags=flags)
    plan = planning.plan(
        sizes, speculative=budget is not None, isolation=isolation.kind if isolation else None, baseline=measured
    )
    begun, report = clock(), GateReport()
    for stage in stages:
        if stage == "quick":
            one = await runner.quick(service.send, alive, plan, measured, Expected(schedulers=8), clock=clock)
        elif stage == "full":
            one = await runner.full(service.send, alive, plan, measured, Expected(schedulers=8), isolation, clock=clock)
        else:
            one = await runner.soak(service.send, plan, measured, sizes.soak_s, sizes.soak_requests, clock=clock)
        report = report.merged(one)
        if report.failed is not None:
            break
    return Judged(report, clock() - begun, service.requests, service.tokens)


def judged(scenario: str, **more: Any) -> Judged:
    """The same, outside of any loop."""
    return in_virtual_time(judge(scenario, **more))
