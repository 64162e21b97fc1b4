"""One stage of the gate while it runs: what was asked, what came, and the verdicts so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ddtune.gate import accept, agreement, coding, detectors, process_facts, prompts, verbatim
from ddtune.gate.baseline import Baseline
from ddtune.gate.isolation import Isolation
from ddtune.gate.model import Answer, CheckResult, GateReport, Verdict
from ddtune.gate.plan import GatePlan
from ddtune.gate.probe import Probe
from ddtune.gate.process_facts import Expected
from ddtune.gate.sending import EngineGone, Inspect, Send, lost, tokens

OnCheck = Callable[[CheckResult], None]


class Stopped(Exception):  # noqa: N818 - it ends a stage and is no error
    """A check did not pass, so the stage ends here."""


class Stage:
    """Asks, judges in order and stops at the first check that does not pass."""

    def __init__(
        self,
        name: str,
        send: Send,
        plan: GatePlan,
        stable: Baseline,
        progress: OnCheck,
        limit_s: float,
        clock: Callable[[], float],
    ) -> None:
        self.name = name
        self.plan = plan
        self.stable = stable
        self.seen: list[tuple[Probe, Answer]] = []
        self._send = send
        self._progress = progress
        self._limit_s = limit_s
        self._clock = clock
        self._begun = self._mark = clock()
        self._checks: dict[str, CheckResult] = {}

    def planned(self, name: str) -> bool:
        """Whether this stage has that check; starts its clock."""
        self._mark = self._clock()
        return self.plan.has(self.name, name)

    def report(self) -> GateReport:
        """The verdicts so far."""
        return GateReport(dict(self._checks), self.plan.not_planned)

    def elapsed(self) -> float:
        """Seconds since the stage began."""
        return self._clock() - self._begun

    async def ask(self, probes: Sequence[Probe], concurrency: int) -> list[Answer]:
        """Send them in what is left of the stage's time; those without an answer come back as errors."""
        left = self._limit_s - self.elapsed()
        came: Mapping[str, Answer] = {}
        if left > 0:
            answers = await self._send([probe.request for probe in probes], concurrency, left)
            came = {answer.id: answer for answer in answers}
        none = Answer("", error="cut by time", error_kind="cut")
        out = [came.get(probe.id, replace(none, id=probe.id)) for probe in probes]
        self.seen += zip(probes, out, strict=True)
        return out

    def conclude(self, result: CheckResult, pairs: Sequence[tuple[Probe, Answer]]) -> None:
        """Record a verdict over ``pairs``, made sharper by what the detectors see in them.

        Raises :class:`EngineGone` when connections were lost and nothing that came is wrong, :class:`Stopped` when the
        verdict is not a pass.
        """
        answers = [answer for _, answer in pairs]
        if result.verdict is not Verdict.PASS:
            result = self._sharpen(result, pairs)
        gone = lost(answers)
        if gone is not None and result.verdict is not Verdict.FAIL:
            raise EngineGone(gone.error)
        self.record(replace(result, seconds=self._clock() - self._mark, tokens=tokens(answers)))

    def record(self, result: CheckResult) -> None:
        """Keep a finished verdict; raises :class:`Stopped` when it is not a pass."""
        earlier = GateReport(self._checks)
        self._checks = dict(earlier.merged(GateReport({result.name: result})).checks)
        self._progress(result)
        if result.verdict is not Verdict.PASS:
            raise Stopped

    def _sharpen(self, result: CheckResult, pairs: Sequence[tuple[Probe, Answer]]) -> CheckResult:
        found = detectors.judge(pairs, self.stable.quirks)
        if found.verdict is Verdict.FAIL:
            return replace(result, verdict=Verdict.FAIL, reason=f"{found.reason}; {result.reason}", cause=found.cause)
        answers = [answer for _, answer in pairs]
        waited = [answer for answer in answers if answer.error_kind in {"timeout", "cut"}]
        if result.verdict is Verdict.INCONCLUSIVE and waited and len(waited) == len(answers):
            return replace(result, reason=f"no answer came in time; {result.reason}", cause="hang")
        return result

    async def facts(self, inspect: Inspect, expected: Expected) -> None:
        """Process facts, read now."""
        if self.planned(process_facts.NAME):
            self.conclude(process_facts.check(await inspect(), expected), ())

    async def copies(self, probes: Sequence[Probe], concurrency: int, name: str = verbatim.NAME) -> None:
        """Verbatim copies."""
        if self.planned(name):
            answers = await self.ask(probes, concurrency)
            pairs = list(zip(probes, answers, strict=True))
            copied = [(probe.expect, answer) for probe, answer in pairs]
            result = verbatim.judge(copied, self.stable.copies, name)
            # A burst is read by the detectors as well.
            if name != verbatim.NAME and result.verdict is Verdict.PASS:
                found = detectors.judge(pairs, self.stable.quirks)
                result = result if found.verdict is Verdict.PASS else replace(found, name=name)
            self.conclude(result, pairs)

    async def agreement(self, probes: Sequence[Probe], concurrency: int) -> None:
        """Continuations against stable's."""
        if self.planned(agreement.NAME):
            answers = await self.ask(probes, concurrency)
            result = agreement.judge(self.stable.answers, self.stable.repeats, answers)
            self.conclude(result, list(zip(probes, answers, strict=True)))

    async def coding(self, isolation: Isolation | None) -> None:
        """The problems that stable solves; one that is lost is asked once more with another nonce."""
        if isolation is None or not self.planned(coding.NAME):
            return
        sizes, names = self.plan.sizes, self.stable.coding
        probes = prompts.coding(self.stable.nonce, sizes.coding, sizes.max_tokens, names)
        answers = await self.ask(probes, max(1, len(probes)))
        judged = await coding.judge_all(probes, answers, isolation)
        pairs = list(zip(probes, answers, strict=True))
        again = tuple(name for name, reason in judged.items() if reason is not None)
        if again:
            second = prompts.coding(f"{self.stable.nonce}-again", sizes.coding, sizes.max_tokens, again)
            retried = await self.ask(second, len(second))
            judged.update(await coding.judge_all(second, retried, isolation))
            pairs += zip(second, retried, strict=True)
        self.conclude(coding.judge(judged, names), pairs)

    async def detectors(self, probes: Sequence[Probe] = ()) -> None:
        """The detectors over all answers of the stage, with ``probes`` asked first."""
        if self.planned(detectors.NAME):
            await self.ask(probes, 1) if probes else None
            self.conclude(detectors.judge(self.seen, self.stable.quirks), self.seen[len(self.seen) - len(probes) :])

    def accept_length(self) -> None:
        """The accept length over all answers of the stage."""
        if self.planned(accept.NAME):
            self.conclude(accept.judge([answer for _, answer in self.seen], self.plan.expect_accept), ())
