"""Reference answers: made with their own noise, kept as JSON, and used in the place of stable's."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from ddtune.gate import golden, runner
from ddtune.gate.golden import Golden, engine_key
from ddtune.gate.model import Answer, Request
from ddtune.profiles.model import GateSizes
from tests.unit.gate_engine import Engine, near_tie, says
from tests.unit.virtual import VirtualService, in_virtual_time

SIZES = GateSizes(singles=3, crowd=6, tokens=64, long_tokens=128, coding=0)
KEY = engine_key(["python", "-m", "sglang.launch_server", "--model-path", "/m", "--tokenizer-path=/t"], "0.5.23+1")


async def make(service: VirtualService | Engine, *, flush: bool = True) -> Golden:
    return await golden.measure(
        service.send, SIZES, key=KEY, nonce="0007-ar", source="ar", profile="ar", release="f" * 64,
        made_by="ana@laptop", flush=flush, wall=lambda: 1_790_000_000.0,
    )  # fmt: skip


def test_the_key_names_model_tokenizer_build_and_sampling() -> None:
    assert KEY == {"model": "/m", "tokenizer": "/t", "build": "0.5.23+1", "sampling": "greedy"}
    assert engine_key(["x", "--model-path", "/m"], "b")["tokenizer"] == "/m"


def test_an_engine_without_speculation_tells_the_gaps_and_one_with_a_tree_refuses() -> None:
    async def go(budget: int | None) -> Golden:
        return await make(VirtualService(budget=budget))

    plain, tree = in_virtual_time(go(None)), in_virtual_time(go(8))
    assert plain.margins_refused is None
    assert plain.reference().has_margins
    assert "does not support return_logprob" in (tree.margins_refused or "")
    assert not tree.reference().has_margins
    assert len(plain.answers) == len(tree.answers) == 4 + 3 + 6


def test_its_own_noise_is_learnt_from_a_second_run_and_one_in_a_batch() -> None:
    async def go(scenario: str) -> Golden:
        return await make(VirtualService(scenario, budget=None))

    still, noisy = in_virtual_time(go("")), in_virtual_time(go("near_ties:0.5"))
    assert all(token is None for runs in still.noise.values() for _, token in runs)
    parted = [token for runs in noisy.noise.values() for _, token in runs if token is not None]
    assert len(parted) > 3
    middle, _, runs = noisy.reference().own()
    assert middle is not None
    assert runs == 2 * 13
    assert "further runs said the same" in noisy.own()


def test_it_survives_the_way_over_the_host() -> None:
    async def go() -> Golden:
        return await make(VirtualService("near_ties:0.5", budget=None))

    made = in_virtual_time(go())
    body = json.loads(json.dumps(made.to_dict()))
    back = Golden.from_dict(body)
    assert json.loads(json.dumps(back.to_dict())) == body
    assert back.reference().own() == made.reference().own()
    assert len(json.dumps(body)) < 256 * 1024
    assert back.reference().said == "the reference without speculation of 2026-09-21 14:13 UTC by ana@laptop"


def test_each_run_is_cold_on_an_engine_of_its_own_and_leaves_a_shared_one_its_cache() -> None:
    async def paths(*, flush: bool) -> list[str]:
        engine = Engine()
        await make(engine, flush=flush)
        return [request.path for _, load in engine.loads for request in load]

    assert asyncio.run(paths(flush=True)).count("/flush_cache") == 4
    assert "/flush_cache" not in asyncio.run(paths(flush=False))


@pytest.mark.parametrize(("flush", "status", "cold"), [(True, 200, True), (True, 400, False), (False, 200, False)])
def test_it_is_called_cold_only_where_the_engine_said_that_the_cache_is_empty(
    flush: bool, status: int, cold: bool
) -> None:
    engine = Engine()
    engine.flushed = status
    assert asyncio.run(make(engine, flush=flush)).cold is cold


def test_nonsense_and_missing_answers_are_no_reference() -> None:
    with pytest.raises(ValueError, match="no reference"):
        asyncio.run(make(Engine(says("! " * 100))))

    def lost(request: Request, answer: Answer) -> Answer:
        return replace(answer, error="HTTP 500: no", error_kind="http") if "crowd" in request.id else answer

    with pytest.raises(ValueError, match="were not answered"):
        asyncio.run(make(Engine(lost)))


def test_a_kept_reference_spares_its_prompts_and_judges_in_stables_place() -> None:
    kept = asyncio.run(make(Engine())).reference()
    engine = Engine(near_tie(3, "b"))
    stable = asyncio.run(
        runner.baseline(engine.send, SIZES, nonce="0008-x", speculative=True, isolation=None, reference=kept)
    )
    asked = {request.id for _, load in engine.loads for request in load}
    assert not any(name.startswith("crowd-topic") for name in asked)
    assert stable.reference.answers["crowd-topic-2"] == kept.answers["crowd-topic-2"]
    assert stable.reference.nonce == "0007-ar"
    assert stable.accept_length is not None, "what stable accepts is still asked of stable"


def test_a_kept_reference_leaves_a_slow_candidate_the_time_that_its_prompts_take() -> None:
    """What stable was spared the candidate is asked, so it must not be cut by stable's shorter time."""

    async def seconds(*, kept: bool) -> float:
        clock = asyncio.get_running_loop().time
        service = VirtualService(budget=None)
        reference = (await make(VirtualService(budget=None))).reference() if kept else None
        stable = await runner.baseline(
            service.send, SIZES, nonce="0008-x", speculative=False, isolation=None, reference=reference, clock=clock
        )
        return stable.seconds

    asked, spared = (in_virtual_time(seconds(kept=kept)) for kept in (False, True))
    assert spared > 0.7 * asked
