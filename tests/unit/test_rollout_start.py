"""The start is followed by its log, and given up only for lack of progress."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from ddtune.config.model import Limits
from ddtune.engine.model import LogLine, Phase
from ddtune.gate.model import Verdict
from ddtune.gate.process_facts import Expected, check
from ddtune.live.snapshot import Link, Snapshot
from ddtune.rollout.errors import TrialFailed
from ddtune.rollout.feed import Feed
from ddtune.rollout.judge import Judge
from ddtune.rollout.link import HostLink
from ddtune.rollout.start import StartLimits, follow_start
from ddtune.rollout.timing import Stopwatch
from tests.unit.cases.given import Watch

LIMITS = StartLimits(progress_s=60.0, deadline_s=600.0, probe_every_s=1.0)


class Script(Feed):
    """A feed that gives the next line at each wait and moves the clock."""

    def __init__(self, steps: list[tuple[float, str]]) -> None:
        super().__init__()
        self.now = 0.0
        self._steps = steps
        self._given: list[LogLine] = []

    async def wait(self, timeout: float) -> None:
        await asyncio.sleep(0)
        if self._steps:
            after, text = self._steps.pop(0)
            self.now += after
            self._given.append(LogLine(at=self.now, text=text))
        else:
            self.now += timeout * 10

    def lines(self) -> list[LogLine]:
        given, self._given = self._given, []
        return given


def follow(script: Script, probe: Callable[[], Awaitable[bool]]) -> list[tuple[Phase, float]]:
    phases: list[tuple[Phase, float]] = []
    asyncio.run(
        follow_start(script, probe, LIMITS, lambda phase, seconds: phases.append((phase, seconds)), lambda: script.now)
    )
    return phases


def test_each_phase_is_told_with_its_seconds_and_ready_takes_a_generation() -> None:
    asked = []
    script = Script(
        [
            (10.0, "[2026-01-01 00:00:10 TP0] Load weight begin. avail mem=270.00 GB"),
            (40.0, "[2026-01-01 00:00:50 TP0] Load weight end. elapsed=40.00 s, type=K, avail mem=100 GB"),
            (5.0, "[2026-01-01 00:00:55 TP0] Capture target verify CUDA graph begin. backend=full"),
            (20.0, "[2026-01-01 00:01:15] INFO:     Started server process [1]"),
            (3.0, "[2026-01-01 00:01:18] The server is fired up and ready to roll!"),
        ]
    )

    async def probe() -> bool:
        asked.append(script.now)
        return len(asked) == 2

    phases = follow(script, probe)
    assert [phase for phase, _ in phases] == list(Phase)
    assert [seconds for _, seconds in phases[:3]] == [10.0, 45.0, 20.0]
    assert asked[0] >= 75.0, "nothing is asked before the log says that the port is up"


def test_silence_in_a_phase_is_a_hang_that_names_the_phase() -> None:
    script = Script([(10.0, "[2026-01-01 00:00:10 TP0] Load weight begin.")])

    async def probe() -> bool:
        raise AssertionError("asked an engine that is not up")

    with pytest.raises(TrialFailed) as failed:
        follow(script, probe)
    assert failed.value.cause == "start_hang"
    assert "weights" in failed.value.message


def test_a_slow_start_that_moves_is_no_hang() -> None:
    steps = [(50.0, f"[2026-01-01 00:00:10 TP0] Loading shard {n}") for n in range(10)]
    script = Script([*steps, (1.0, "[2026-01-01 00:09:00] The server is fired up and ready to roll!")])

    async def probe() -> bool:
        return True

    assert follow(script, probe)[-1][0] is Phase.READY


def test_a_feed_hands_out_each_line_once() -> None:
    feed = Feed()
    line = LogLine(at=1.0, text="x", cursor="c1")
    snapshot = Snapshot(host="h", at=1.0, link=Link("up"), log=(line,))
    feed.push(snapshot)
    feed.push(snapshot)
    assert list(feed.lines()) == [line]
    assert list(feed.lines()) == []


def test_k9_01_long_start_with_progress_is_waited_for() -> None:
    """Four minutes of weights and fourteen of compiling, each with lines; limits as they are by default."""
    defaults = Limits()
    limits = StartLimits(defaults.progress_s, defaults.start_deadline_s, 1.0)
    compiling = [
        (42.0, f"DeepGEMM warmup: {share}%|{'#' * (share // 10)}| {share}/100 [07:00<07:00, 7.0s/it]")
        for share in range(0, 100, 5)
    ]
    script = Script(
        [
            (10.0, "[2026-01-01 00:00:10 TP0] Load weight begin. avail mem=270.00 GB"),
            (240.0, "[2026-01-01 00:04:10 TP0] Load weight end. elapsed=240.00 s, type=K, avail mem=100 GB"),
            (5.0, "[2026-01-01 00:04:15 TP0] Capture target verify CUDA graph begin. backend=full"),
            (5.0, "[2026-01-01 00:04:20 TP0] Entering DeepGEMM JIT Pre-Compile session. It may take a long time"),
            *compiling,
            (9.0, "[2026-01-01 00:18:30] INFO:     Started server process [1]"),
            (3.0, "[2026-01-01 00:18:33] The server is fired up and ready to roll!"),
        ]
    )
    phases: list[tuple[Phase, float]] = []

    async def probe() -> bool:
        return True

    asyncio.run(follow_start(script, probe, limits, lambda phase, s: phases.append((phase, s)), lambda: script.now))
    assert script.now > 1000
    assert sum(seconds for phase, seconds in phases if phase is Phase.GRAPHS) > 800


def test_k9_01_silence_is_no_progress() -> None:
    defaults = Limits()
    limits = StartLimits(defaults.progress_s, defaults.start_deadline_s, 1.0)
    script = Script([(10.0, "[2026-01-01 00:00:10 TP0] Load weight begin. avail mem=270.00 GB")])

    async def probe() -> bool:
        return False

    with pytest.raises(TrialFailed, match="in phase weights") as failed:
        asyncio.run(follow_start(script, probe, limits, lambda *_: None, lambda: script.now))
    assert failed.value.cause == "start_hang"
    assert defaults.progress_s < script.now < defaults.progress_s + 30


def test_what_an_earlier_start_said_of_its_graphs_is_not_this_ones() -> None:
    feed = Feed()
    assert feed.graphs_in_use("b") is None
    one = Snapshot(host="h", at=1.0, link=Link("up"))
    feed.push(replace(one, service=replace(one.service, invocation="a", graphs_in_use=True)))
    assert feed.graphs_in_use("b") is None
    assert feed.graphs_in_use("a") is True
    assert feed.graphs_in_use(None) is None


def test_the_model_is_what_this_start_says_that_it_serves() -> None:
    info = {"t": "info", "run": "a", "body": {"model_path": "/models/one", "internal_states": []}}
    watch = Watch().unit().take(info)
    assert watch.shown.service.model == "/models/one"
    feed = Feed()
    feed.push(watch.shown)
    assert feed.model("a") == "/models/one"
    assert feed.model("b") is None
    assert watch.unit(InvocationID="b").shown.service.model is None, "the start before it said so"
    judge = Judge(cast("HostLink", Inspected()), Stopwatch())
    judge.model = lambda: feed.model("a")
    facts = asyncio.run(judge.inspect())
    assert check(facts, Expected(model_id="/models/one")).verdict is Verdict.PASS
    other = check(facts, Expected(model_id="/models/two"))
    assert (other.verdict, other.cause) == (Verdict.FAIL, "wrong_output")


class Inspected:
    """A host whose service runs."""

    async def call(self, verb: str, **_: Any) -> dict[str, Any]:
        assert verb == "inspect"
        return {"active_state": "active"}
