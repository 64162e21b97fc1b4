"""The gate of one transaction: stable's own answers before, the candidate's after, stable's again after a rollback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ddtune.gate import runner
from ddtune.gate.baseline import Baseline
from ddtune.gate.model import CheckResult, GateEvent, GateReport, Request, Verdict
from ddtune.gate.plan import GatePlan, plan
from ddtune.gate.probe import chat
from ddtune.gate.process_facts import Expected
from ddtune.gate.sending import EngineGone
from ddtune.host.errors import HelperFailed, HelperRefused, Unreachable
from ddtune.onhost.txn_model import VISIT
from ddtune.rollout.errors import TrialFailed
from ddtune.rollout.judge import Judge
from ddtune.rollout.plan import Prepared, of_trial

READY_LIMIT_S = 60.0
FIRST_QUESTION = chat("ready", "What is the capital of France? Answer with one word.", 16, READY_LIMIT_S)


class Gating:
    """Holds the baseline and the report so far. ``on_check`` is told each finished check, ``on_event`` every step."""

    def __init__(
        self,
        judge: Judge,
        prepared: Prepared,
        on_check: Callable[[CheckResult], None],
        on_event: Callable[[GateEvent], None],
    ) -> None:
        self._judge = judge
        self._prepared = prepared
        self._on_check = on_check
        self._on_event = on_event
        self._stable: Baseline | None = None
        self.report = GateReport()

    @property
    def canary(self) -> Mapping[str, Any] | None:
        """The request that the host's own guard repeats on stable after a rollback, or None."""
        return self._stable.canary if self._stable else None

    @property
    def not_planned(self) -> Mapping[str, str]:
        """Checks of the candidate that will not run, with the reason."""
        return of_trial(self._prepared.plan.kind, self._plan()).not_planned

    async def measure_stable(self) -> tuple[str, ...]:
        """Ask what runs now for its own answers; sentences about what is wrong with them.

        Raises EngineGone when it does not answer.
        """
        prepared = self._prepared
        self._stable = await runner.baseline(
            self._judge.send,
            prepared.sizes,
            nonce=prepared.op,
            speculative=prepared.stable_speculative,
            isolation=prepared.isolation,
            # A visit only asks stable whether it is itself again.
            full=prepared.plan.kind != VISIT,
            reference=prepared.reference,
        )
        return self._stable.problems

    def forget_stable(self) -> None:
        """Judge the release by its own first answers: what ran before is no measure."""
        self._stable = None

    async def generates(self) -> bool:
        """Whether a generation completes. What it says is the quick gate's to judge, at once afterwards."""
        canary = self.canary
        probe = FIRST_QUESTION if canary is None else Request("ready", canary["path"], canary["body"], READY_LIMIT_S)
        try:
            answers = await self._judge.send([probe], 1, READY_LIMIT_S)
        except (HelperRefused, HelperFailed):
            return False
        return all(answer.error is None for answer in answers)

    async def run(self, stage: str, invocation: str | None) -> None:
        """Run one stage. Raises TrialFailed on the first check that does not pass, EngineGone on a dead engine."""
        if self._stable is None:
            await self.measure_stable()
        found = await self._stage(stage, self._plan(), self._prepared.expected(invocation))
        self.report = self.report.merged(found)
        bad = found.failed
        if bad is not None:
            cause = bad.cause or ("gate_inconclusive" if bad.verdict is Verdict.INCONCLUSIVE else "wrong_output")
            raise TrialFailed(cause, f"{bad.name}: {bad.reason}")

    async def check_stable(self) -> CheckResult | None:
        """The quick gate on stable after a rollback: the check that did not pass, or None."""
        stable = self._stable
        if stable is None:
            return None
        try:
            return (await self._stage("quick", self._plan().on_stable(stable), Expected())).failed
        except (EngineGone, HelperRefused, HelperFailed, Unreachable) as error:
            return CheckResult("quick", Verdict.INCONCLUSIVE, f"stable stopped answering: {error}", cause="engine_dead")

    async def _stage(self, stage: str, planned: GatePlan, expected: Expected) -> GateReport:
        stable = self._stable
        assert stable is not None
        send, inspect, sizes = self._judge.send, self._judge.inspect, self._prepared.sizes
        if stage == "quick":
            return await runner.quick(send, inspect, planned, stable, expected, self._on_check, events=self._on_event)
        if stage == "full":
            isolation = self._prepared.isolation
            return await runner.full(
                send, inspect, planned, stable, expected, isolation, self._on_check, events=self._on_event
            )
        return await runner.soak(
            send, planned, stable, sizes.soak_s, sizes.soak_requests, self._on_check, events=self._on_event
        )

    def _plan(self) -> GatePlan:
        prepared = self._prepared
        return plan(
            prepared.sizes,
            speculative=prepared.speculative,
            isolation=prepared.isolation.kind if prepared.isolation else None,
            isolation_reason=prepared.isolation_reason,
            expect_accept=prepared.expect_accept,
            baseline=self._stable,
        )
