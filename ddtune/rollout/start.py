"""The start of the engine, followed by its log until a checked generation came back."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ddtune.engine.model import Phase
from ddtune.engine.phases import phase_after
from ddtune.rollout.errors import TrialFailed
from ddtune.rollout.feed import Feed

FIRED_UP = "The server is fired up and ready to roll"
ORDER = (Phase.LAUNCH, Phase.WEIGHTS, Phase.GRAPHS, Phase.WARMUP, Phase.READY)


@dataclass(frozen=True)
class StartLimits:
    """Seconds: without a new log line, in all, and between two attempts to generate."""

    progress_s: float
    deadline_s: float
    probe_every_s: float


async def follow_start(
    feed: Feed,
    probe: Callable[[], Awaitable[bool]],
    limits: StartLimits,
    on_phase: Callable[[Phase, float], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Return once ``probe`` completed a checked generation; raise TrialFailed when the start makes no progress.

    ``on_phase`` is told each phase that ended and the seconds that it took. The port is asked only when the log says
    that it is up, or when there is no log to read.
    """
    began = last_line = phase_began = clock()
    last_probe = 0.0
    phase = Phase.LAUNCH
    saw_log = False
    while True:
        await feed.wait(0.25)
        now = clock()
        for line in feed.lines():
            if line.source != "unit":
                continue
            saw_log = True
            last_line = now
            reached = Phase.READY if FIRED_UP in line.text else phase_after(phase, line)
            if ORDER.index(reached) > ORDER.index(phase):
                on_phase(phase, now - phase_began)
                phase, phase_began = reached, now
        waited = now - last_probe >= limits.probe_every_s
        if waited and (phase in (Phase.WARMUP, Phase.READY) or (not saw_log and now - began > limits.probe_every_s)):
            last_probe = now
            if await probe():
                on_phase(phase, clock() - phase_began)
                return
        if now - last_line > limits.progress_s:
            raise TrialFailed("start_hang", f"no log line for {now - last_line:.0f} s in phase {phase.value}.")
        if now - began > limits.deadline_s:
            raise TrialFailed("start_hang", f"not ready after {now - began:.0f} s, in phase {phase.value}.")
