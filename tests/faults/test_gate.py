"""Stable judged against itself, again and again: a gate that cries wolf would be switched off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from ddtune.gate import plan as planning
from ddtune.gate import runner
from ddtune.gate.model import Answer, Request, Verdict
from ddtune.gate.process_facts import Expected, Facts
from ddtune.onhost import load
from ddtune.profiles.model import GateSizes
from tests.faults.rows import Row
from tests.faults.site import STABLE, Site

RUNS = 200
SIZES = GateSizes(concurrency=(1, 8))


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.timeout(500)
def test_28_stable_against_itself(site: Site, row: Row) -> None:
    port = site.guest.api_port

    async def send(requests: Sequence[Request], concurrency: int, deadline_s: float) -> list[Answer]:
        asked = {
            "requests": [request.to_dict() for request in requests],
            "concurrency": concurrency,
            "deadline_s": deadline_s,
            "api_port": port,
        }
        answer = await asyncio.to_thread(load.run, asked)
        return [Answer.from_dict(one) for one in answer["answers"]]

    async def inspect() -> Facts:
        return Facts()

    async def judged() -> list[str]:
        failed = []
        for number in range(RUNS):
            if number % 20 == 0:
                nonce = f"aa-{time.time():.0f}-{number}"
                stable = await runner.baseline(send, SIZES, nonce=nonce, speculative=True, isolation=None, full=False)
                assert stable.problems == ()
                planned = planning.plan(SIZES, speculative=True, isolation=None, baseline=stable, stages=("quick",))
            report = await runner.quick(send, inspect, planned, stable, Expected())
            failed += [
                f"{name}: {check.reason}" for name, check in report.checks.items() if check.verdict is not Verdict.PASS
            ]
        return failed

    before = site.invocation()
    failed = asyncio.run(judged())
    row.note(f"{RUNS} runs, {len(failed)} did not pass")
    assert failed == []
    assert site.invocation() == before
    assert site.runs(STABLE)
