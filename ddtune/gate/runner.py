"""The gate's stages: ask, judge in order, stop at the first check that does not pass."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from ddtune.gate import accept, detectors, prompts, verbatim
from ddtune.gate.baseline import Baseline, measure
from ddtune.gate.isolation import Isolation
from ddtune.gate.model import Answer, CheckResult, GateReport, Verdict
from ddtune.gate.plan import CROWD, LEAST_COPIES, SOAK_BATCH, GatePlan
from ddtune.gate.probe import Probe
from ddtune.gate.process_facts import Expected
from ddtune.gate.sending import EngineGone, Inspect, Send
from ddtune.gate.stage import LONG_PROMPT, OnCheck, OnEvent, Stage, Stopped
from ddtune.gate.stage import nothing as ignore

__all__ = ["Baseline", "EngineGone", "baseline", "full", "quick", "soak"]

QUICK_LIMIT_S = 60.0
FULL_LIMIT_S = 180.0
# A healthy candidate may be this many times slower than stable before time cuts it.
SLOWER = 4.0
SOAK_CONCURRENCY = 4
# What a soak may take besides its duration.
SOAK_ASKING_S = 60.0
# Of a soak's requests, those that may fail to come back without putting it in doubt.
SOAK_LOST = 0.01
# Idle seconds after a load, and the share of the soak that they are at most.
IDLE_S, IDLE_SHARE = 20.0, 0.1

baseline = measure


async def quick(
    send: Send,
    inspect: Inspect,
    plan: GatePlan,
    stable: Baseline,
    expected: Expected,
    progress: OnCheck = ignore,
    *,
    clock: Callable[[], float] = time.monotonic,
    events: OnEvent = ignore,
) -> GateReport:
    """The quick gate: 8 requests, one at a time; also the check of stable after a rollback.

    Raises :class:`EngineGone` when the engine drops connections and no answer that came was wrong.
    """
    run = Stage("quick", send, plan, stable, progress, max(QUICK_LIMIT_S, SLOWER * stable.quick_seconds), clock, events)
    try:
        await run.facts(inspect, expected)
        await run.copies(prompts.quick_copies(stable.nonce, stable.copy_style, plan.sizes))
        await run.agreement((prompts.quick_continuations(stable.reference.nonce, plan.sizes), 1))
        await run.detectors(prompts.questions(stable.nonce, plan.sizes))
        run.accept_length()
    except Stopped:
        pass
    return run.report()


async def full(
    send: Send,
    inspect: Inspect,
    plan: GatePlan,
    stable: Baseline,
    expected: Expected,
    isolation: Isolation | None,
    progress: OnCheck = ignore,
    *,
    clock: Callable[[], float] = time.monotonic,
    events: OnEvent = ignore,
) -> GateReport:
    """The full gate: short questions, agreement together and one by one, bursts at each level, a repeated prompt, a
    long copy, a long prompt, coding, production's sampling.

    Raises :class:`EngineGone` as :func:`quick` does.
    """
    nonce, style, sizes = stable.nonce, stable.copy_style, plan.sizes
    run = Stage("full", send, plan, stable, progress, max(FULL_LIMIT_S, SLOWER * stable.seconds), clock, events)
    try:
        await run.wide_margins(CROWD)
        await run.agreement(
            (prompts.crowd_continuations(stable.reference.nonce, sizes), CROWD),
            (prompts.single_continuations(stable.reference.nonce, sizes), 1),
        )
        for level in plan.levels():
            copies = prompts.burst(nonce, level, max(level, LEAST_COPIES), style, sizes)
            await run.mixed(copies, level, f"concurrency_{level}")
        await run.mixed(prompts.mixed(nonce, style, sizes), CROWD, "repeated_prompt")
        await run.copies(prompts.long_copy(nonce, style, sizes))
        await run.long_prompt(
            prompts.beside_long(nonce, style, sizes),
            prompts.long_prompts(nonce, style, sizes, prompts.LONGS),
            prompts.after_long(nonce, style, sizes),
        )
        sampled = prompts.sampled(nonce, sizes.sampled, sizes)
        await run.coding(isolation, sampled)
        await run.sampling(sampled, CROWD)
        await run.detectors()
        run.accept_length()
        await run.facts(inspect, expected)
    except Stopped:
        pass
    return run.report()


async def soak(
    send: Send,
    plan: GatePlan,
    stable: Baseline,
    duration_s: float,
    requests: int,
    progress: OnCheck = ignore,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    events: OnEvent = ignore,
) -> GateReport:
    """Rounds of copies and continuations, spread over ``duration_s``, until both it and ``requests`` are over.

    The first round comes after a load and then some idle seconds, and the others leave idle seconds between them: some
    faults wait for the moment when nothing runs. A soak that needs more than four times ``duration_s`` and a minute for
    its requests is inconclusive. Raises :class:`EngineGone` as :func:`quick` does.
    """
    rounds = max(1, math.ceil(requests / SOAK_BATCH))
    run = Stage("soak", send, plan, stable, progress, SLOWER * duration_s + SOAK_ASKING_S, clock, events)
    if not run.planned("soak"):
        return run.report()
    number, idle_s = 0, min(IDLE_S, IDLE_SHARE * duration_s)
    try:
        load = prompts.burst(f"{stable.nonce}-load", CROWD, CROWD, stable.copy_style, plan.sizes)
        await run.ask(load, CROWD)
        await sleep(idle_s)
        while number < rounds or run.elapsed() < duration_s:
            long = stable.long_exact and plan.has("full", LONG_PROMPT)
            probes = prompts.soak_round(stable.nonce, number, SOAK_BATCH, stable.copy_style, plan.sizes, long=long)
            await run.ask(probes, SOAK_CONCURRENCY)
            number += 1
            # By itself: what begins now must not drown in what was well before.
            verdict = _soaked(run, plan, idle_s, run.seen[-len(probes) :])
            if verdict.verdict is not Verdict.PASS:
                run.conclude(verdict, run.seen)
            await sleep(max(0.0, min(duration_s, number * duration_s / rounds) - run.elapsed()))
        run.conclude(_soaked(run, plan, idle_s, run.seen), run.seen)
    except Stopped:
        pass
    return run.report()


def _soaked(run: Stage, plan: GatePlan, idle_s: float, asked: Sequence[tuple[Probe, Answer]]) -> CheckResult:
    """The verdict over some of what a soak has seen; how many answers were lost counts over all."""
    came = [(probe, answer) for probe, answer in asked if answer.error is None or answer.error_kind == "body"]
    missing = sum(answer.error is not None and answer.error_kind != "body" for _, answer in run.seen)
    found = detectors.judge(came, run.stable.quirks)
    if came and found.verdict is not Verdict.PASS:
        return replace(found, name="soak")
    copies = [(probe.expect, answer) for probe, answer in came if probe.family == "copy"]
    if copies:
        copied = verbatim.judge(copies, run.together, "soak", errs=run.stable.errs)
        if copied.verdict is not Verdict.PASS:
            return copied
    rate = accept.judge([answer for _, answer in came], plan.expect_accept)
    if plan.has("quick", accept.NAME) and rate.verdict is Verdict.FAIL:
        return replace(rate, name="soak")
    said = f"{len(run.seen) - missing} of {len(run.seen)} answers came, {idle_s:.0f} idle s before them; nothing found"
    if missing > max(1, SOAK_LOST * len(run.seen)) or not came:
        return CheckResult("soak", Verdict.INCONCLUSIVE, said, cause="gate_inconclusive")
    return CheckResult("soak", Verdict.PASS, said)
