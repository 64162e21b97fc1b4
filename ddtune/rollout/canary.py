"""A watch's canary: a short copy and a continuation, judged against what the same release answered before."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ddtune.gate import accept, detectors, prompts, runner, verbatim
from ddtune.gate.baseline import Baseline
from ddtune.gate.model import Answer, Request, Verdict
from ddtune.gate.sending import EngineGone, lost
from ddtune.live.snapshot import Snapshot
from ddtune.profiles.model import GateSizes
from ddtune.rollout.judge import Judge
from ddtune.rollout.sights import Sight, hang_or_load

PROBES = 2
FIRST_WORDS = 12
MEASURE_S = 180.0


class Canary:
    """Looks at one service. What a release answers first is the measure of all its later answers."""

    def __init__(self, judge: Judge, snapshot: Callable[[], Snapshot | None], limit_s: float) -> None:
        self._judge = judge
        self._snapshot = snapshot
        self._limit_s = limit_s
        self._nonce = f"watch-{time.time():.0f}"
        self._release: str | None = None
        self._measure: Baseline | None = None
        self._number = 0
        self._silent = False

    async def look(self, release: str | None, sizes: GateSizes, speculative: bool) -> Sight:
        """One canary. Raises the link's and the helper's errors."""
        began = time.time()
        try:
            if self._measure is None or release != self._release:
                self._silent = False
                # Whoever answers nothing is not asked sixteen times before that is said.
                first = prompts.copy("first", f"{self._nonce}-first", FIRST_WORDS)
                await self._send([first.request], 1, self._limit_s)
                if self._silent:
                    return Sight(began, hang_or_load(self._snapshot(), began), "a short canary did not come back.")
                measure = await runner.baseline(
                    self._send,
                    sizes,
                    nonce=self._nonce,
                    speculative=speculative,
                    isolation=None,
                    full=False,
                    limit_s=min(MEASURE_S, 8 * self._limit_s),
                )
                if measure.problems:
                    cause = hang_or_load(self._snapshot(), began) if self._silent else "wrong_output"
                    return Sight(began, cause, f"{measure.problems[0]}.")
                self._measure, self._release = measure, release
            return await self._probe(self._measure, sizes, began)
        except EngineGone as error:
            return Sight(began, "engine_dead", f"the engine drops connections: {error}.")

    async def _send(self, requests: Sequence[Request], concurrency: int, deadline_s: float) -> list[Answer]:
        answers = await self._judge.send(requests, concurrency, deadline_s)
        gone = lost(answers)
        if gone is not None:
            raise EngineGone(gone.error)
        self._silent = self._silent or any(one.error_kind in ("timeout", "cut", "not_sent") for one in answers)
        return answers

    async def _probe(self, measure: Baseline, sizes: GateSizes, began: float) -> Sight:
        self._number += 1
        probes = prompts.soak_round(measure.nonce, self._number, PROBES, measure.copy_style, sizes)
        answers = await self._judge.send([probe.request for probe in probes], 1, self._limit_s)
        gone = lost(answers)
        if gone is not None:
            raise EngineGone(gone.error)
        pairs = list(zip(probes, answers, strict=True))
        came = [(probe, answer) for probe, answer in pairs if answer.error is None or answer.error_kind == "body"]
        found = detectors.judge(came, measure.quirks)
        if came and found.verdict is Verdict.FAIL:
            return Sight(began, found.cause or "garbage_output", f"{found.reason}.")
        copies = [(probe.expect, answer) for probe, answer in came if probe.family == "copy"]
        copied = verbatim.judge(copies, measure.copies) if copies else None
        if copied is not None and copied.verdict is Verdict.FAIL:
            return Sight(began, "wrong_output", f"{copied.reason}.")
        if len(came) < len(pairs):
            cause = hang_or_load(self._snapshot(), began)
            return Sight(began, cause, f"{len(pairs) - len(came)} of {len(pairs)} canaries did not come back.")
        rate, _ = accept.measured(answers)
        return Sight(began, None, "answered rightly", rate)
