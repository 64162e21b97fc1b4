"""How the answers of a live engine part from what it says alone, in time that takes none."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import pytest

from ddtune.gate.model import Answer, Request
from ddtune.sim.engine.web import Request as Http
from tests.unit.virtual import VirtualService, in_virtual_time

TOPICS = [f"[{number}] How the harbour works\n\nThe harbour is" for number in range(32)]


def asked(name: str, prompt: str, tokens: int = 120, **more: Any) -> Request:
    sampling = {"temperature": 0, "max_new_tokens": tokens}
    return Request(name, "/generate", {"text": prompt, "sampling_params": sampling, **more})


def answers(scenario: str, prompts: list[str], concurrency: int, *, seed: int = 0, tokens: int = 120) -> list[Answer]:
    async def go() -> list[Answer]:
        service = VirtualService(scenario, seed=seed)
        return await service.send([asked(str(at), text, tokens) for at, text in enumerate(prompts)], concurrency, 600)

    return in_virtual_time(go())


def changed(scenario: str, concurrency: int, prompts: list[str] = TOPICS, **more: int) -> int:
    """How many of the answers are not what a healthy engine says alone."""
    sound, other = answers("", prompts, concurrency, **more), answers(scenario, prompts, concurrency, **more)
    assert all(answer.error is None for answer in [*sound, *other])
    return sum(one.token_ids != two.token_ids for one, two in zip(sound, other, strict=True))


def test_a_healthy_engine_says_the_same_at_every_size_of_batch() -> None:
    assert answers("", TOPICS, 1)[0].text == answers("", TOPICS, 32)[0].text


def test_near_ties_break_more_often_in_a_larger_batch_and_not_the_same_way_each_time() -> None:
    alone, together = (changed("near_ties:0.05", size) for size in (1, 32))
    assert 0 < alone < together < len(TOPICS)
    one, two = (answers("near_ties:0.2", TOPICS, 8, seed=seed) for seed in (1, 2))
    assert [a.text for a in one] != [a.text for a in two]


def test_garbage_at_a_low_or_a_high_concurrency_is_there_only() -> None:
    assert changed("garbage_low", 1) == 32
    assert changed("garbage_high", 1) == changed("garbage_high", 8) == 0
    assert changed("garbage_high", 32) > 16


def test_a_strength_is_a_share_of_the_requests() -> None:
    counts = [changed(f"garbage_low:{strength}", 1) for strength in (1, 0.5, 0.25)]
    assert counts[0] == 32
    assert 8 < counts[1] < 24
    assert 2 < counts[2] < counts[1]


def test_late_garbage_begins_past_2048_tokens_of_context() -> None:
    long = f"[x] {'The keeper wrote it down. ' * 360}\n\nThe harbour is"
    assert changed("garbage_late", 1, TOPICS[:4]) == 0
    assert changed("garbage_late", 1, [long]) == 1


def test_one_long_request_poisons_all_that_follow() -> None:
    long = f"[x] {'The keeper wrote it down. ' * 400}\n\nThe harbour is"
    before, *_, after = answers("poison", [TOPICS[0], long, *TOPICS[1:6], TOPICS[6]], 1)
    assert set(before.text) != {"!"}
    assert set(after.text) <= {"!"}
    assert (before.accept_length or 0) > 4
    assert after.accept_length in {1.0, None}


def test_doubled_words_leave_the_accept_length_as_it_is() -> None:
    sound, doubled = (answers(scenario, TOPICS[:8], 1) for scenario in ("", "doubled"))
    words = doubled[0].text.split()
    assert sum(one == two for one, two in itertools.pairwise(words)) >= 3
    assert [one.verify_calls for one in sound] == [one.verify_calls for one in doubled]


def test_drift_goes_on_in_another_language_and_empty_answers_are_empty() -> None:
    drifted = answers("drift", TOPICS[:12], 8)
    assert any(not answer.text.isascii() for answer in drifted)
    assert all(answer.text.startswith(" ") for answer in drifted)
    assert {answer.text for answer in answers("empty", TOPICS[:4], 1)} == {""}


def test_a_hang_comes_after_so_many_requests() -> None:
    kinds = [answer.error_kind for answer in answers("hang:5", TOPICS[:8], 1)]
    assert kinds == [None] * 5 + ["timeout"] * 3


def test_log_probabilities_name_the_near_ties_and_what_would_come_instead() -> None:
    """The gap is small exactly where an engine of other numerics may part, and the runner-up is what it then says."""

    async def go(budget: int | None, **more: Any) -> list[Answer]:
        service = VirtualService(budget=budget)
        return await service.send([asked(str(at), text, **more) for at, text in enumerate(TOPICS)], 1, 600)

    plain = in_virtual_time(go(None, return_logprob=True, top_logprobs_num=2))
    tree = in_virtual_time(go(8))
    parted = 0
    for one, two in zip(plain, tree, strict=True):
        at = next((at for at, (a, b) in enumerate(zip(one.token_ids, two.token_ids, strict=False)) if a != b), None)
        if at is not None:
            parted += 1
            assert one.gaps[at] < 0.5
            assert one.runners_up[at] == two.token_ids[at]
    assert parted > 2
    assert sum(gap > 1.5 for gap in plain[0].gaps) > 0.9 * len(plain[0].gaps)


@pytest.mark.parametrize("kind", ["doubled", "drift", "garbage_low", "near_ties:0.3"])
def test_a_stream_says_what_the_whole_answer_says(kind: str) -> None:
    async def go(stream: bool) -> str:
        service = VirtualService(kind)
        body = json.dumps({**asked("a", TOPICS[3]).body, "stream": stream}).encode()
        response = await service._api.handle(Http("POST", "/generate", {}, {}, body, "127.0.0.1:1"))
        if response.chunks is None:
            return str(json.loads(response.body)["text"])
        text = ""
        async for chunk in response.chunks:
            if b"[DONE]" not in chunk:
                text = json.loads(chunk.removeprefix(b"data: "))["text"]
            await asyncio.sleep(0)
        return text

    assert in_virtual_time(go(True)) == in_virtual_time(go(False))
