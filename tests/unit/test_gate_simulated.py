"""The whole gate against the simulated engine, over the host's own load program."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ddtune.gate import plan as planning
from ddtune.gate import runner
from ddtune.gate.baseline import Baseline
from ddtune.gate.isolation import probe
from ddtune.gate.model import Answer, GateReport, Request, Verdict
from ddtune.gate.process_facts import Expected, Facts
from ddtune.onhost import load
from ddtune.profiles.model import GateSizes

ROOT = Path(__file__).parents[2]
SIZES = GateSizes(concurrency=(1, 2, 8, 32))
COMMON = (
    "--model-path /models/Kimi-K2.6 --trust-remote-code --tp-size 8 --host 127.0.0.1 --enable-metrics "
    "--attention-backend triton --page-size 1 --enable-nccl-nvls --max-running-requests 128"
)
TREE = (
    "--speculative-algorithm DDTREE --speculative-draft-model-path /models/Kimi-K2.6-DFlash "
    "--speculative-draft-window-size 2048 --speculative-ddtree-budget {budget}"
)


class Service:
    """One simulated engine and a ``send`` to it."""

    def __init__(self, port: int, speculative: bool) -> None:
        self.port = port
        self.speculative = speculative

    async def send(self, requests: Sequence[Request], concurrency: int, deadline_s: float) -> list[Answer]:
        asked = {
            "requests": [request.to_dict() for request in requests],
            "concurrency": concurrency,
            "deadline_s": deadline_s,
            "api_port": self.port,
        }
        answer = await asyncio.to_thread(load.run, asked)
        return [Answer.from_dict(one) for one in answer["answers"]]

    def baseline(self) -> Baseline:
        return asyncio.run(
            runner.baseline(
                self.send,
                SIZES,
                nonce=secrets.token_hex(4),
                speculative=self.speculative,
                isolation=probe().isolation,
            )
        )

    def gate(self, stable: Baseline) -> GateReport:
        isolation = probe().isolation
        plan = planning.plan(
            SIZES,
            speculative=self.speculative,
            isolation=isolation.kind if isolation else None,
            expect_accept=4.48,
            baseline=stable,
        )

        async def both() -> GateReport:
            report = await runner.quick(self.send, alive, plan, stable, Expected(schedulers=8))
            if report.passed:
                later = await runner.full(self.send, alive, plan, stable, Expected(schedulers=8), isolation)
                report = report.merged(later)
            return report

        return asyncio.run(both())


async def alive() -> Facts:
    return Facts(active_state="active", schedulers_alive=8)


@contextmanager
def serving(budget: int | None = 8, *flags: str, scenario: str = "") -> Iterator[Service]:
    """A warm engine of these flags; ``budget`` None is without speculation."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    speculative = [] if budget is None else TREE.format(budget=budget).split()
    env = {"DDTUNE_SIM_WARM": "1", "DDTUNE_SIM_SPEED": "40", "DDTUNE_SIM_SCENARIO": scenario}
    process = subprocess.Popen(
        [sys.executable, "-m", "ddtune.sim.engine", *COMMON.split(), "--port", str(port), *speculative, *flags],
        env={**os.environ, **env, "SGLANG_DDTREE_MAX_TOPK": "4"},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30
        while not ready(port):
            assert process.poll() is None, "the engine ended before it was ready"
            assert time.monotonic() < deadline, "the engine was not ready in 30 s"
            time.sleep(0.05)
        yield Service(port, budget is not None)
    finally:
        process.kill()
        process.wait()


def ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture(scope="module")
def stable() -> Iterator[tuple[Service, Baseline]]:
    with serving(8) as service:
        yield service, service.baseline()


def test_stable_is_sound_and_has_no_quirks(stable: tuple[Service, Baseline]) -> None:
    _, measured = stable
    assert set(measured.copies) == {1.0}
    assert measured.quirks == frozenset()
    assert measured.problems == ()
    assert measured.accept_length is not None
    assert 4 < measured.accept_length < 5
    assert measured.canary is not None
    if probe().isolation is not None:
        assert len(measured.coding) == 30


def test_stable_passes_against_itself(stable: tuple[Service, Baseline]) -> None:
    service, measured = stable
    assert_passes(service.gate(measured))


def test_a_wider_tree_without_graphs_passes(stable: tuple[Service, Baseline]) -> None:
    with serving(16, "--disable-cuda-graph") as service:
        assert_passes(service.gate(stable[1]))


def test_no_speculation_passes_without_an_accept_length(stable: tuple[Service, Baseline]) -> None:
    with serving(None) as service:
        report = service.gate(stable[1])
    assert_passes(report)
    assert "accept_length" in report.not_planned


@pytest.mark.parametrize(("budget", "scenario"), [(32, ""), (8, "garbage"), (8, "empty")])
def test_garbage_fails(stable: tuple[Service, Baseline], budget: int, scenario: str) -> None:
    with serving(budget, scenario=scenario) as service:
        report = service.gate(stable[1])
    assert report.failed is not None
    assert (report.failed.verdict, report.failed.cause) == (Verdict.FAIL, "garbage_output")


@pytest.mark.parametrize(("scenario", "cause"), [("accept_one", "accept_collapse"), ("wrong", "wrong_output")])
def test_other_faults_have_their_own_cause(stable: tuple[Service, Baseline], scenario: str, cause: str) -> None:
    with serving(8, scenario=scenario) as service:
        report = service.gate(stable[1])
    assert report.failed is not None
    assert (report.failed.verdict, report.failed.cause) == (Verdict.FAIL, cause)


def test_an_engine_that_dies_under_load_is_gone(stable: tuple[Service, Baseline]) -> None:
    with serving(12) as service, pytest.raises(runner.EngineGone):
        service.gate(stable[1])


def assert_passes(report: GateReport) -> None:
    assert report.failed is None, report.failed
    assert report.passed
