"""The stages of the gate against an engine in this process."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ddtune.gate import plan as planning
from ddtune.gate import runner
from ddtune.gate.baseline import Baseline
from ddtune.gate.isolation import Isolation
from ddtune.gate.model import Answer, CheckResult, GateReport, Request, Verdict
from ddtune.gate.process_facts import Expected, Facts
from ddtune.profiles.model import GateSizes
from tests.unit.gate_engine import Engine, Fault, fails, near_tie, only, says

SIZES = GateSizes(concurrency=(1, 2, 8, 32), soak_s=30, soak_requests=24, coding=0)


async def inspect() -> Facts:
    return Facts(argv=("x",), active_state="active", invocation="i1", schedulers_alive=8)


EXPECTED = Expected(invocation="i1", schedulers=8)


def measured(*faults: Fault, accept: float = 4.5, speculative: bool = True) -> Baseline:
    engine = Engine(*faults, accept=accept)
    return asyncio.run(runner.baseline(engine.send, SIZES, nonce="a1b2c3d4", speculative=speculative, isolation=None))


STABLE = measured()


def planned(stable: Baseline = STABLE, **more: Any) -> planning.GatePlan:
    return planning.plan(SIZES, isolation=None, baseline=stable, **{"speculative": True, **more})


def gate(engine: Engine, stable: Baseline = STABLE, full: bool = True, **more: Any) -> GateReport:
    plan = planned(stable, **more)

    async def both() -> GateReport:
        first = await runner.quick(engine.send, inspect, plan, stable, EXPECTED)
        if not first.passed or not full:
            return first
        return first.merged(await runner.full(engine.send, inspect, plan, stable, EXPECTED, None))

    return asyncio.run(both())


def test_a_healthy_engine_passes_every_planned_check() -> None:
    heard: list[CheckResult] = []
    engine = Engine()
    plan = planned()

    async def go() -> GateReport:
        one = await runner.quick(engine.send, inspect, plan, STABLE, EXPECTED, heard.append)
        two = await runner.full(engine.send, inspect, plan, STABLE, EXPECTED, None, heard.append)
        three = await runner.soak(engine.send, plan, STABLE, 0, 24, heard.append)
        return one.merged(two).merged(three)

    report = asyncio.run(go())
    assert {name: check.verdict for name, check in report.checks.items()} == dict.fromkeys(plan.names, Verdict.PASS)
    assert report.passed
    assert "coding" in report.not_planned
    assert next(check.name for check in heard) == "process_facts"
    assert report.checks["agreement"].tokens > 0


def test_the_quick_gate_is_eight_requests_of_at_most_400_tokens_one_at_a_time() -> None:
    engine = Engine()
    gate(engine, full=False)
    assert sum(len(requests) for _, requests in engine.loads) == 8
    assert {concurrency for concurrency, _ in engine.loads} == {1}
    limits = [
        request.body.get("max_tokens") or request.body["sampling_params"]["max_new_tokens"]
        for _, requests in engine.loads
        for request in requests
    ]
    assert max(limits) <= 400


def test_the_full_gate_sends_each_level_together() -> None:
    engine = Engine()
    gate(engine)
    by_level = {concurrency: len(requests) for concurrency, requests in engine.loads if concurrency > 8}
    assert by_level == {32: 32}
    asked = sum(
        request.body.get("max_tokens") or request.body["sampling_params"]["max_new_tokens"]
        for _, requests in engine.loads
        for request in requests
    )
    assert asked <= planning.FULL_TOKENS


@pytest.mark.parametrize("start", [6, 12, 40])
def test_texts_that_part_at_near_ties_are_no_fault(start: int) -> None:
    assert gate(Engine(near_tie(start, "b"))).passed


def test_a_stable_that_parts_from_itself_is_no_reason_to_fail_its_like() -> None:
    turn = iter(range(10_000))

    def noisy(request: Request, answer: Answer) -> Answer:
        return near_tie(7, str(next(turn)))(request, answer)

    stable = measured(noisy)
    assert gate(Engine(near_tie(7, "other")), stable).passed


def test_garbage_everywhere_is_named_so() -> None:
    report = gate(Engine(says("! " * 200)))
    assert report.failed is not None
    assert report.failed.verdict is Verdict.FAIL
    assert report.failed.cause == "garbage_output"
    assert report.failed.name == "verbatim_copy"


def test_wrong_copies_without_garbage_are_wrong_output() -> None:
    report = gate(Engine(only("copy", says("The weather in the harbour was calm and the boats went out as usual."))))
    assert report.failed is not None
    assert (report.failed.name, report.failed.cause) == ("verbatim_copy", "wrong_output")


def test_a_candidate_that_parts_at_once_fails_agreement() -> None:
    report = gate(Engine(near_tie(1, "x")))
    assert report.failed is not None
    assert (report.failed.name, report.failed.verdict) == ("agreement", Verdict.FAIL)


def test_no_accepted_draft_is_a_collapse_even_with_right_texts() -> None:
    report = gate(Engine(accept=1.0), expect_accept=4.48)
    assert report.failed is not None
    assert report.failed.cause == "accept_collapse"


def test_far_under_the_expectation_only_warns() -> None:
    report = gate(Engine(accept=1.42), expect_accept=6.3)
    assert report.passed
    assert "warning: far under the expectation (2" in report.checks["accept_length"].reason


def test_garbage_only_in_a_large_batch_is_found_by_its_level() -> None:
    report = gate(Engine(only("burst-32", says("<|im_end|><|im_end|><|im_end|><|im_end|>"))))
    assert report.failed is not None
    assert (report.failed.name, report.failed.cause) == ("concurrency_32", "garbage_output")


def test_answers_that_do_not_come_are_inconclusive_and_a_hang_when_not_one_token_does() -> None:
    report = gate(Engine(only("topic", fails("timeout"))))
    assert report.failed is not None
    assert (report.failed.name, report.failed.verdict) == ("agreement", Verdict.INCONCLUSIVE)
    report = gate(Engine(only("topic", fails("timeout")), only("still-there", fails("timeout"))))
    assert report.failed is not None
    assert (report.failed.name, report.failed.verdict) == ("agreement", Verdict.FAIL)
    assert report.failed.cause == "hang"
    report = gate(Engine(only("copy-1", fails("timeout"))))
    assert report.failed is not None
    assert (report.failed.verdict, report.failed.cause) == (Verdict.INCONCLUSIVE, "gate_inconclusive")


def test_what_came_can_be_wrong_although_the_rest_did_not_come() -> None:
    report = gate(Engine(says("the the the the the the the the"), only("copy-1", fails("connection"))))
    assert report.failed is not None
    assert report.failed.cause == "garbage_output"


def test_a_lost_connection_is_for_the_caller_to_judge() -> None:
    with pytest.raises(runner.EngineGone):
        gate(Engine(only("topic-2", fails("connection"))))


def test_a_stage_without_time_is_inconclusive() -> None:
    now = iter([0.0] * 3 + [10_000.0] * 100)
    report = asyncio.run(runner.quick(Engine().send, inspect, planned(), STABLE, EXPECTED, clock=lambda: next(now)))
    assert report.failed is not None
    assert report.failed.verdict is Verdict.INCONCLUSIVE


def test_process_facts_come_first() -> None:
    engine = Engine()
    expected = replace(EXPECTED, schedulers=9)
    report = asyncio.run(runner.quick(engine.send, inspect, planned(), STABLE, expected))
    assert report.failed is not None
    assert report.failed.name == "process_facts"
    assert engine.loads == []


def test_soak_lasts_for_both_its_time_and_its_requests() -> None:
    now = [0.0]
    engine = Engine()

    async def sleep(seconds: float) -> None:
        now[0] += max(seconds, 0.5)

    def soak(duration: float, requests: int) -> int:
        engine.loads.clear()
        begun = now[0]
        report = asyncio.run(
            runner.soak(engine.send, planned(), STABLE, duration, requests, clock=lambda: now[0], sleep=sleep)
        )
        assert report.passed
        assert now[0] - begun >= duration
        return sum(len(asked) for _, asked in engine.loads)

    assert soak(30, 24) >= 24
    assert soak(0.1, 200) >= 200
    assert soak(300, 8) >= 8


def test_soak_stops_at_the_first_garbage() -> None:
    engine = Engine(only("soak-2-", says("~" * 400)))
    report = asyncio.run(runner.soak(engine.send, planned(), STABLE, 0, 200))
    assert report.failed is not None
    assert report.failed.cause == "garbage_output"
    assert len(engine.loads) == 4, "a load and three rounds"


def test_one_lost_answer_of_a_hundred_does_not_doubt_a_soak_and_five_do() -> None:
    report = asyncio.run(runner.soak(Engine(only("soak-3-1", fails("timeout"))).send, planned(), STABLE, 0, 100))
    assert report.passed
    report = asyncio.run(runner.soak(Engine(only("-1", fails("timeout"))).send, planned(), STABLE, 0, 100))
    assert report.failed is not None
    assert report.failed.verdict is Verdict.INCONCLUSIVE


def test_baseline_knows_a_model_that_copies_only_by_example() -> None:
    def chatty(request: Request, answer: Answer) -> Answer:
        return replace(answer, text="Sure! Here is a story.") if request.path.endswith("completions") else answer

    stable = measured(chatty)
    assert stable.copy_style == "plain"
    assert stable.problems == ()
    assert gate(Engine(chatty), stable, full=False).passed


def test_a_few_exact_copies_do_not_say_that_a_model_copies_when_it_is_told_to() -> None:
    def errs(request: Request, answer: Answer) -> Answer:
        """Drops a word of one copy in four."""
        rare = request.path.endswith("completions") and request.id == "style-copy-3"
        return replace(answer, text=answer.text.replace(" the ", " ", 1)) if rare else answer

    assert measured(errs).copy_style == "plain"
    assert measured().copy_style == "chat"


def test_baseline_says_that_stable_itself_is_broken() -> None:
    stable = measured(says("!" * 300))
    assert stable.problems == ("stable does not copy a short text",)
    report = gate(Engine(says("!" * 300)), stable)
    assert report.failed is not None
    assert report.failed.verdict is Verdict.FAIL


def test_canary_is_a_copy_or_what_stable_repeats_or_none() -> None:
    stable = STABLE.canary
    assert stable is not None
    assert stable["expect"] in stable["body"]["messages"][0]["content"]
    counted = measured(only("canary", says("10, 11, 12, 13, 14"))).canary
    assert counted is not None
    assert counted["expect"].startswith("10, 11")
    assert measured(only("canary", says(""))).canary is None


def test_coding_is_asked_again_before_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def judged(probes: Any, answers: Any, isolation: Any) -> dict[str, str | None]:
        return {
            probe.expect: None if answer.text.startswith("```python") else "wrong"
            for probe, answer in zip(probes, answers, strict=True)
        }

    monkeypatch.setattr("ddtune.gate.coding.judge_all", judged)
    sizes = replace(SIZES, coding=5)
    stable = asyncio.run(
        runner.baseline(Engine().send, sizes, nonce="n", speculative=True, isolation=Isolation("unshare"))
    )
    assert len(stable.coding) == 5
    plan = planning.plan(sizes, speculative=True, isolation="unshare", baseline=stable)
    asked = [0]

    def once(request: Request, answer: Answer) -> Answer:
        if request.id == "coding-is_balanced":
            asked[0] += 1
            return replace(answer, text="no idea") if asked[0] == 1 else answer
        return answer

    def run(fault: Fault) -> CheckResult:
        engine = Engine(fault)
        report = asyncio.run(runner.full(engine.send, inspect, plan, stable, EXPECTED, Isolation("unshare")))
        return report.checks["coding"]

    assert run(once).verdict is Verdict.PASS
    assert asked[0] == 2
    lost = run(only("coding-roman", says("no idea")))
    assert (lost.verdict, lost.cause) == (Verdict.FAIL, "wrong_output")
    assert "4 of 5" in lost.reason
