"""The full gate's rungs one by one, where the gate stands meanwhile, and what a soak waits for."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from ddtune.gate import runner
from ddtune.gate.model import Answer, GateEvent, Request, Verdict
from ddtune.gate.plan import FULL_TOKENS, plan, production
from ddtune.gate.texts import SURE
from ddtune.profiles.model import GateSizes
from tests.unit.gate_engine import Engine, Fault, fails, only, prompt_of, says
from tests.unit.test_gate_runner import EXPECTED, STABLE, gate, inspect, measured, planned


def stage_of(engine: Engine) -> list[GateEvent]:
    heard: list[GateEvent] = []
    made = planned()
    asyncio.run(runner.full(engine.send, inspect, made, STABLE, EXPECTED, None, events=heard.append))
    return heard


def test_a_dashboard_hears_each_check_begin_count_its_answers_and_end() -> None:
    heard = stage_of(Engine())
    names = [check.name for check in planned().checks if check.stage == "full"]
    begun = [event for event in heard if not event.asked and event.result is None]
    assert [event.check for event in begun] == names
    assert [event.number for event in begun] == list(range(1, len(names) + 1))
    assert {(event.stage, event.of) for event in heard} == {("full", len(names))}
    burst = [event for event in heard if event.check == "concurrency_32"]
    assert [(event.asked, event.answered) for event in burst] == [(0, 0), (32, 0), (32, 32), (32, 32)]
    ended = burst[-1]
    assert ended.result is not None
    assert ended.result.verdict is Verdict.PASS
    assert 0 < ended.tokens == ended.result.tokens <= (ended.budget or 0) == ended.result.budget


def test_a_gate_that_stops_says_where() -> None:
    heard = stage_of(Engine(only("burst-8", says("~" * 400))))
    assert heard[-1].check == "concurrency_8"
    assert heard[-1].result is not None
    assert heard[-1].result.verdict is Verdict.FAIL


@pytest.mark.parametrize(("lost", "passes"), [(0, True), (2, True), (3, False)])
def test_two_short_questions_may_be_lost_twice_and_not_three(lost: int, passes: bool) -> None:
    bad = {asked for asked, _ in SURE[:lost]}

    def forgets(request: Request, answer: Answer) -> Answer:
        return (
            replace(answer, text="I am not sure about that.") if prompt_of(request).split("] ")[-1] in bad else answer
        )

    report = gate(Engine(forgets))
    assert report.passed is passes
    if not passes:
        assert report.failed is not None
        assert (report.failed.name, report.failed.cause) == ("wide_margins", "wrong_output")


def test_a_short_question_is_asked_a_second_time_with_another_nonce() -> None:
    asked: Counter[str] = Counter()

    def once(request: Request, answer: Answer) -> Answer:
        asked[request.id] += 1
        return replace(answer, text="hm") if "-again]" not in prompt_of(request) else answer

    assert gate(Engine(only("sure-", once))).passed
    assert set(asked.values()) == {2}


def test_questions_that_stable_does_not_know_are_not_planned() -> None:
    stable = measured(only("sure-", says("I do not know.")))
    said = planned(stable).not_planned["wide_margins"]
    assert said == "stable itself answers 0 of 20 short questions"


def test_a_prompt_that_goes_wrong_when_it_comes_again_is_found() -> None:
    seen: Counter[str] = Counter()

    def warm(request: Request, answer: Answer) -> Answer:
        seen[prompt_of(request)] += 1
        words = answer.text.split()
        return answer if seen[prompt_of(request)] == 1 else replace(answer, text=" ".join(words[: len(words) // 3]))

    report = gate(Engine(only("mixed-same", warm)))
    assert report.failed is not None
    assert (report.failed.name, report.failed.verdict) == ("repeated_prompt", Verdict.FAIL)


@pytest.mark.parametrize(
    ("running", "levels"), [(128, (1, 2, 8, 32, 128)), (20, (1, 2, 8, 20)), (1, (1,)), (None, (1, 2, 8, 32))]
)
def test_the_gate_goes_to_what_production_may_run_at_once(running: int | None, levels: tuple[int, ...]) -> None:
    sizes = production(GateSizes(), running)
    assert sizes.concurrency == levels
    made = plan(sizes, speculative=True, isolation="bubblewrap")
    assert made.levels() == levels
    assert sum(check.tokens for check in made.checks if check.stage == "full") <= FULL_TOKENS


def soaked(engine: Engine, duration_s: float = 100.0) -> tuple[list[float], list[str]]:
    """How long the soak slept, and whom it asked in order."""
    now, slept = [0.0], []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    report = asyncio.run(runner.soak(engine.send, planned(), STABLE, duration_s, 24, clock=lambda: now[0], sleep=sleep))
    assert report.passed
    return slept, [load[0].id for _, load in engine.loads]


def test_a_soak_begins_with_a_load_and_idle_seconds_and_leaves_some_between_its_rounds() -> None:
    slept, asked = soaked(Engine())
    assert asked[0].startswith("burst-")
    assert [one.split("-")[1] for one in asked[1:]] == ["0", "1", "2"]
    assert slept[0] == 10, "a tenth of the soak, 20 s at most"
    assert soaked(Engine(), 1000.0)[0][0] == 20
    assert all(seconds > 5 for seconds in slept)


def test_each_round_of_a_soak_has_a_long_prompt_where_stable_takes_one() -> None:
    engine = Engine()
    asyncio.run(runner.soak(engine.send, planned(), STABLE, 0, 24))
    rounds = [load for _, load in engine.loads[1:]]
    assert [sum("-long" in one.id for one in load) for load in rounds] == [1, 1, 1]
    assert {len(load) for load in rounds} == {8}
    short = Engine()
    asyncio.run(runner.soak(short.send, planned(replace(STABLE, no_long="stable refuses it")), STABLE, 0, 8))
    assert not any("-long" in one.id for _, load in short.loads[1:] for one in load)


def test_what_begins_late_in_a_soak_does_not_drown_in_what_was_well_before() -> None:
    late: Fault = only("soak-20-", says("! " * 60))
    report = asyncio.run(runner.soak(Engine(late).send, planned(), STABLE, 0, 200))
    assert report.failed is not None
    assert report.failed.cause == "garbage_output"


def test_an_engine_that_answers_nothing_more_hangs_and_a_slow_one_is_inconclusive() -> None:
    gone = gate(Engine(only("mixed-topic", fails("timeout")), only("still-there", fails("timeout"))))
    slow = gate(Engine(only("mixed-topic", fails("timeout"))))
    assert gone.failed is not None
    assert slow.failed is not None
    assert (gone.failed.verdict, gone.failed.cause) == (Verdict.FAIL, "hang")
    assert (slow.failed.verdict, slow.failed.cause) == (Verdict.INCONCLUSIVE, "gate_inconclusive")


def test_answers_of_other_weights_than_stables_fail() -> None:
    def of(version: str) -> Fault:
        return lambda request, answer: (
            replace(answer, weight_version=version) if request.path == "/generate" else answer
        )

    stable = measured(of("v1"))
    assert stable.weights == "v1"
    assert gate(Engine(of("v1")), stable).passed
    report = gate(Engine(of("v2")), stable)
    assert report.failed is not None
    assert (report.failed.name, report.failed.verdict) == ("process_facts", Verdict.FAIL)
    assert "'v2'" in report.failed.reason
    assert gate(Engine(), stable).passed, "a build that does not tell is not suspected"


def test_one_odd_sampled_answer_is_chance_and_two_are_not() -> None:
    odd = says("кто-то написал это по-русски, хотя никто не просил")
    assert gate(Engine(only("sampled-3", odd))).passed
    report = gate(Engine(only("sampled-3", odd), only("sampled-5", odd)))
    assert report.failed is not None
    assert (report.failed.name, report.failed.cause) == ("sampling", "garbage_output")


def test_a_model_that_copies_badly_behind_long_prompts_is_not_held_to_it_in_each_round() -> None:
    def slips(request: Request, answer: Answer) -> Answer:
        return replace(answer, text=answer.text.rsplit(" ", 2)[0])

    stable = measured(only("long-prompt-1", slips))
    assert stable.no_long is None
    assert not stable.long_exact
    assert STABLE.long_exact
