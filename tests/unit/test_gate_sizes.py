"""The sizes of a profile's gate: what is asked grows and shrinks with them, and stays under what the plan says."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ddtune.gate import prompts, runner
from ddtune.gate.model import Answer, Request
from ddtune.gate.plan import FULL_TOKENS, plan
from ddtune.gate.process_facts import Expected, Facts
from ddtune.profiles.model import GateSizes
from tests.unit.gate_engine import Engine, limit_of

SMALL = GateSizes(
    concurrency=(4,), coding=0, singles=2, crowd=4, tokens=16, copy_words=40, long_copy_words=60, wide=2, mixed=0,
    sampled=0, long_prompt_words=0, long_tokens=16,
)  # fmt: skip


async def _inspect() -> Facts:
    return Facts(active_state="active")


@pytest.mark.parametrize("sizes", [GateSizes(coding=0), SMALL], ids=["default", "small"])
def test_no_more_is_asked_than_planned(sizes: GateSizes) -> None:
    engine = Engine()
    planned = plan(sizes, speculative=True, isolation=None)

    async def gate() -> list[list[int]]:
        stable = await runner.baseline(engine.send, sizes, nonce="0001-x", speculative=True, isolation=None)
        asked = []
        for stage in (runner.quick, runner.full):
            before = len(engine.loads)
            extra = (None,) if stage is runner.full else ()
            report = await stage(engine.send, _inspect, planned, stable, Expected(), *extra)  # type: ignore[operator]
            assert report.passed
            asked.append([limit_of(one) for _, load in engine.loads[before:] for one in load])
        return asked

    for name, limits in zip(("quick", "full"), asyncio.run(gate()), strict=True):
        assert sum(limits) <= sum(check.tokens for check in planned.checks if check.stage == name)
    assert sum(check.tokens for check in planned.checks if check.stage == "full") <= FULL_TOKENS
    assert sum(check.tokens for check in planned.checks if check.stage == "quick") <= 8 * 400


def test_a_small_gate_is_small() -> None:
    planned = plan(SMALL, speculative=True, isolation=None)
    assert sum(check.tokens for check in planned.checks if check.stage != "soak") < 2000


def test_a_begun_copy_is_asked_for_its_rest() -> None:
    probe = prompts.copy("a", "0001-x", 40, "plain")
    *whole, begun = probe.prompt.split("\n")
    assert whole == [f"{begun} {probe.expect}"] * 2
    assert len(begun.split()) == 7, "its label and six words"
    assert len(probe.expect.split()) > 20


def test_a_model_that_copies_best_by_going_on_is_asked_so() -> None:
    """A small model drops a word of what it is told to repeat, and goes on with a text without a fault."""

    def drops_a_word(request: Request, answer: Answer) -> Answer:
        chat = request.path.endswith("completions")
        return replace(answer, text=answer.text.replace(" the ", " ", 1)) if chat else answer

    engine = Engine(drops_a_word)
    stable = asyncio.run(
        runner.baseline(engine.send, SMALL, nonce="0001-x", speculative=True, isolation=None, full=False)
    )
    assert stable.copy_style == "plain"
    assert set(stable.copies) == {1.0}
