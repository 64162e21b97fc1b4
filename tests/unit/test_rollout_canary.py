"""A watch's canary against engines that answer rightly, wrongly, late and never."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from ddtune.gate.model import Answer, Request
from ddtune.live.snapshot import Link, ServiceReading, Snapshot
from ddtune.profiles.model import GateSizes
from ddtune.rollout.canary import Canary
from ddtune.rollout.sights import Sight

DEAD = Snapshot("b300", 2e9, Link("up"), service=ServiceReading(health="dead", tokens_per_s=0.0))
WORDS = "The harbour was quiet that morning and the boats went out one after the other as they had always done."


class Engine:
    """Gives the gate's ``send``. ``answers`` makes one answer; ``sent`` counts the requests."""

    def __init__(self, answers: Callable[[Request], Answer]) -> None:
        self.answers = answers
        self.sent = 0

    async def send(self, requests: Sequence[Request], concurrency: int, deadline_s: float) -> list[Answer]:
        self.sent += len(requests)
        return [self.answers(request) for request in requests]


def right(request: Request) -> Answer:
    """A copy where one is asked for, else some prose that never repeats."""
    messages = request.body.get("messages")
    prompt = messages[0]["content"] if messages else str(request.body.get("text"))
    text = prompt.partition("<text>\n")[2].partition("\n</text>")[0] or f"{request.id}: {WORDS}"
    return Answer(request.id, text=text, completion_tokens=32, finish_reason="stop", status=200)


def garbage(request: Request) -> Answer:
    return Answer(request.id, text="!" * 300, completion_tokens=300, finish_reason="length", status=200)


def silent(request: Request) -> Answer:
    return Answer(request.id, error="no answer in time", error_kind="timeout")


def gone(request: Request) -> Answer:
    return Answer(request.id, error="connection refused", error_kind="connection")


def _look(canary: Canary) -> Sight:
    return asyncio.run(canary.look("r1", GateSizes(), speculative=False))


def _canary(engine: Engine) -> Canary:
    return Canary(engine, lambda: DEAD, 5.0)  # type: ignore[arg-type]  # of a judge only send is used


def test_right_answers_are_good_and_later_ones_are_few() -> None:
    engine = Engine(right)
    canary = _canary(engine)
    assert _look(canary).cause is None
    before = engine.sent
    assert _look(canary).cause is None
    assert engine.sent - before == 2


@pytest.mark.parametrize(
    ("then", "causes"),
    [(garbage, {"garbage_output"}), (silent, {"hang"}), (gone, {"engine_dead"})],
)
def test_what_comes_late_is_found(then: Callable[[Request], Answer], causes: set[str]) -> None:
    engine = Engine(right)
    canary = _canary(engine)
    assert _look(canary).cause is None
    engine.answers = then
    assert _look(canary).cause in causes


def test_an_engine_that_hung_before_the_watch_began_is_asked_once() -> None:
    engine = Engine(silent)
    assert _look(_canary(engine)).cause == "hang"
    assert engine.sent == 1


def test_one_that_was_wrong_from_the_start_is_no_measure() -> None:
    engine = Engine(garbage)
    canary = _canary(engine)
    assert _look(canary).cause == "wrong_output"
    engine.answers = right
    assert _look(canary).cause is None
