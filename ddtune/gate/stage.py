"""One stage of the gate while it runs: what was asked, what came, and the verdicts so far."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ddtune.gate import accept, agreement, coding, detectors, process_facts, prompts, sampling, verbatim, wide_margins
from ddtune.gate.baseline import Baseline
from ddtune.gate.isolation import Isolation
from ddtune.gate.model import Answer, CheckResult, GateEvent, GateReport, Verdict
from ddtune.gate.plan import MOST_LOST, GatePlan
from ddtune.gate.probe import Probe, generate
from ddtune.gate.process_facts import Expected
from ddtune.gate.sending import EngineGone, Inspect, Send, lost, tokens

OnCheck = Callable[[CheckResult], None]
OnEvent = Callable[[GateEvent], None]
# A generation of one token: what a server that can still answer anything answers.
STILL_THERE = generate("still-there", "One, two,", 1, timeout_s=20.0)


LONG_PROMPT = "long_prompt"


def nothing(*_: object) -> None:
    """The default of everything that only tells."""


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
        events: OnEvent = nothing,
    ) -> None:
        self.name = name
        self.plan = plan
        self.stable = stable
        self.seen: list[tuple[Probe, Answer]] = []
        self._send = send
        self._progress = progress
        self._events = events
        self._names = [check.name for check in plan.checks if check.stage == name]
        self._hung = False
        self._ahead: list[Answer] = []
        self._event = GateEvent(name, "", 0, len(self._names))
        self._limit_s = limit_s
        self._clock = clock
        self._begun = self._mark = clock()
        self._checks: dict[str, CheckResult] = {}

    def planned(self, name: str) -> bool:
        """Whether this stage has that check; starts its clock."""
        self._mark = self._clock()
        if not self.plan.has(self.name, name):
            return False
        budget = self.plan.budget(self.name, name)
        self._tell(GateEvent(self.name, name, self._names.index(name) + 1, len(self._names), budget=budget))
        return True

    def report(self) -> GateReport:
        """The verdicts so far."""
        return GateReport(dict(self._checks), self.plan.not_planned)

    def elapsed(self) -> float:
        """Seconds since the stage began."""
        return self._clock() - self._begun

    async def ask(self, probes: Sequence[Probe], concurrency: int) -> list[Answer]:
        """Send them in what is left of the stage's time; those without an answer come back as errors."""
        if not probes:
            return []
        left = self._limit_s - self.elapsed()
        came: Mapping[str, Answer] = {}
        self._tell(replace(self._event, asked=self._event.asked + len(probes)))
        if left > 0:
            answers = await self._send([probe.request for probe in probes], concurrency, left)
            came = {answer.id: answer for answer in answers}
        none = Answer("", error="cut by time", error_kind="cut")
        out = [came.get(probe.id, replace(none, id=probe.id)) for probe in probes]
        self.seen += zip(probes, out, strict=True)
        if any(answer.error_kind in {"timeout", "cut"} for answer in out) and not self._hung:
            self._hung = await self._says_nothing()
        answered = sum(answer.error is None for answer in out)
        event = self._event
        self._tell(replace(event, answered=event.answered + answered, tokens=event.tokens + tokens(out)))
        return out

    async def _says_nothing(self) -> bool:
        """Whether not even one token comes back: then it is not slow, it hangs."""
        (answer,) = await self._send([STILL_THERE], 1, STILL_THERE.timeout_s + 1)
        return answer.error_kind in {"timeout", "cut"}

    def _tell(self, event: GateEvent) -> None:
        self._event = replace(event, seconds=self._clock() - self._mark)
        self._events(self._event)

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
        spent = self._clock() - self._mark
        budget = self.plan.budget(self.name, result.name)
        self.record(replace(result, seconds=spent, tokens=tokens(answers), requests=len(pairs), budget=budget))

    def record(self, result: CheckResult) -> None:
        """Keep a finished verdict; raises :class:`Stopped` when it is not a pass."""
        earlier = GateReport(self._checks)
        self._checks = dict(earlier.merged(GateReport({result.name: result})).checks)
        self._progress(result)
        self._tell(replace(self._event, result=result))
        if result.verdict is not Verdict.PASS:
            raise Stopped

    def _sharpen(self, result: CheckResult, pairs: Sequence[tuple[Probe, Answer]]) -> CheckResult:
        found = detectors.judge(pairs, self.stable.quirks)
        if found.verdict is Verdict.FAIL:
            return replace(result, verdict=Verdict.FAIL, reason=f"{found.reason}; {result.reason}", cause=found.cause)
        if result.verdict is Verdict.INCONCLUSIVE and self._hung:
            waited = sum(answer.error_kind in {"timeout", "cut"} for _, answer in pairs)
            said = f"it hangs: {waited} of {len(pairs)} answers and then not even one token came"
            return replace(result, verdict=Verdict.FAIL, reason=f"{said}; {result.reason}", cause="hang")
        return result

    async def facts(self, inspect: Inspect, expected: Expected) -> None:
        """Process facts, read now."""
        if self.planned(process_facts.NAME):
            result = process_facts.check(await inspect(), expected)
            others = {answer.weight_version for _, answer in self.seen} - {None, self.stable.weights}
            if result.verdict is Verdict.PASS and self.stable.weights and others:
                said = f"answers come from weights {others.pop()!r}, stable's from {self.stable.weights!r}"
                result = CheckResult(process_facts.NAME, Verdict.FAIL, said, cause="wrong_output")
            self.conclude(result, ())

    async def copies(self, probes: Sequence[Probe]) -> None:
        """Verbatim copies, one by one."""
        await self.mixed(probes, 1, verbatim.NAME)

    async def agreement(self, *groups: tuple[Sequence[Probe], int]) -> None:
        """Continuations against the reference's; each group is sent at its own concurrency."""
        if self.planned(agreement.NAME):
            pairs: list[tuple[Probe, Answer]] = []
            for probes, concurrency in groups:
                pairs += zip(probes, await self.ask(probes, concurrency), strict=True)
            self.conclude(agreement.judge(self.stable.reference, [answer for _, answer in pairs]), pairs)

    async def wide_margins(self, concurrency: int) -> None:
        """Short questions that stable answers; one that is lost is asked once more with another nonce."""
        if not self.planned(wide_margins.NAME):
            return
        count, sure = self.plan.sizes.wide, self.stable.sure
        probes = [probe for probe in prompts.wide_margins(self.stable.nonce, count) if probe.id in sure]
        answers = await self.ask(probes, concurrency)
        right = set(wide_margins.right(probes, answers))
        pairs = list(zip(probes, answers, strict=True))
        again = [
            probe
            for probe in prompts.wide_margins(f"{self.stable.nonce}-again", count)
            if probe.id in sure and probe.id not in right
        ]
        if again:
            retried = await self.ask(again, concurrency)
            right.update(wide_margins.right(again, retried))
            pairs += zip(again, retried, strict=True)
        self.conclude(wide_margins.judge(probes, answers, tuple(right)), pairs)

    async def mixed(self, probes: Sequence[Probe], concurrency: int, name: str) -> None:
        """Copies among other requests: the copies are compared, everything is read by the detectors."""
        if self.planned(name):
            stable = self.stable.copies if concurrency == 1 else self.together
            await self._copied(probes, await self.ask(probes, concurrency), name, stable)

    @property
    def together(self) -> tuple[float, ...]:
        """What stable's copies are like among others; where none were asked so, as they are one by one."""
        return self.stable.copies_together or self.stable.copies

    async def long_prompt(self, beside: Sequence[Probe], long: Sequence[Probe], after: Sequence[Probe]) -> None:
        """Long prompts among short ones, and whether short ones are still answered once they are over."""
        if self.planned(LONG_PROMPT):
            probes = [*long, *beside]
            answers = await self.ask(probes, len(probes))
            answers += await self.ask(after, len(after))
            await self._copied([*probes, *after], answers, LONG_PROMPT, self.together)

    async def _copied(
        self, probes: Sequence[Probe], answers: Sequence[Answer], name: str, stable: Sequence[float]
    ) -> None:
        pairs = list(zip(probes, answers, strict=True))
        copied = [(probe.expect, answer) for probe, answer in pairs if probe.family == "copy"]
        result = verbatim.judge(copied, stable, name, errs=self.stable.errs)
        if result.verdict is Verdict.PASS:
            found = detectors.judge(pairs, self.stable.quirks)
            result = result if found.verdict is Verdict.PASS else replace(found, name=name)
        self.conclude(result, pairs)

    async def sampling(self, probes: Sequence[Probe], concurrency: int) -> None:
        """Open questions with production's own sampling, read by the detectors."""
        if self.planned(sampling.NAME):
            answers = self._ahead or await self.ask(probes, concurrency)
            pairs = list(zip(probes, answers, strict=True))
            greedy = [answer for probe, answer in self.seen if probe.family == "continue"]
            self.conclude(sampling.judge(pairs, self.stable.quirks, greedy), pairs)

    async def coding(self, isolation: Isolation | None, ahead: Sequence[Probe] = ()) -> None:
        """The problems that stable solves; one that is lost is asked once more with another nonce.

        Running the answers takes this machine a while, in which the engine is asked what ``sampling`` asks next.
        """
        if isolation is None or not self.planned(coding.NAME):
            return
        sizes, names = self.plan.sizes, self.stable.coding
        probes = prompts.coding(self.stable.nonce, sizes.coding, sizes.max_tokens, names)
        answers = await self.ask(probes, max(1, len(probes)))
        ahead = ahead if self.plan.has(self.name, sampling.NAME) else ()
        judged, self._ahead = await asyncio.gather(
            coding.judge_all(probes, answers, isolation), self.ask(ahead, max(1, len(ahead)))
        )
        pairs = list(zip(probes, answers, strict=True))
        again = tuple(name for name, reason in judged.items() if reason is not None)
        if 0 < len(again) <= MOST_LOST:
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
