"""Keeps, on the host, what a transaction asked, what came back and what was read meanwhile: for ``ddtune evidence``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ddtune.gate.model import Answer, CheckResult, Request
from ddtune.host.errors import HelperFailed, HelperRefused, Unreachable
from ddtune.live.snapshot import Snapshot
from ddtune.rollout.link import HostLink

READ_EVERY_S = 10.0
SEND_EVERY_S = 30.0
OF_A_LOAD = 8
OF_A_FAILED_LOAD = 64
LINES_SENT = 400
SEND_LIMIT_S = 60.0
PROMPT_CHARS = 400
TEXT_CHARS = 800
_SERVICE = ("health", "profile", "tokens_per_s", "accept_length", "running", "queued", "kv_usage", "graphs_in_use")
_GPU = ("power_w", "util", "memory_used_mib", "temperature_c")
_Lines = list[tuple[float, dict[str, Any]]]


class Recorder:
    """Collects lines and sends them now and then. What cannot be sent is lost: a transaction never waits for it."""

    def __init__(
        self,
        link: HostLink,
        op: str,
        snapshot: Callable[[], Snapshot | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stage = "baseline"
        self._link = link
        self._op = op
        self._snapshot = snapshot
        self._clock = clock
        self._answers: _Lines = []
        self._readings: _Lines = []
        self._rest: _Lines = []
        self._sending: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Read and send until cancelled."""
        sent = self._clock()
        while True:
            self.reading()
            if self._clock() - sent >= SEND_EVERY_S:
                sent = self._clock()
                self.send()
            await asyncio.sleep(READ_EVERY_S)

    def answers(self, requests: Sequence[Request], answers: Sequence[Answer]) -> None:
        """Take one load: a few of its answers, those without one first. The prompts are the gate's own."""
        asked = {request.id: request for request in requests}
        now = self._clock()
        # A refused connection is the journal's to explain, and a start is full of them.
        came = [answer for answer in answers if answer.error_kind != "connection"]
        lines = [(now, _line(self.stage, asked.get(answer.id), answer)) for answer in came]
        lines.sort(key=lambda one: one[1]["error"] is None)
        self._answers += lines[:OF_A_LOAD]
        self._rest = lines[OF_A_LOAD:OF_A_FAILED_LOAD]

    def verdict(self, check: CheckResult) -> None:
        """Take a finished check; of one that did not pass, the rest of what it was judged by too."""
        if check.verdict.value != "pass":
            self._answers += self._rest
        self._rest = []
        told = {"check": check.name, "verdict": check.verdict.value, "reason": check.reason}
        self._answers.append((self._clock(), {"stage": self.stage, **told}))

    def reading(self, phase: str | None = None) -> None:
        """Take what is read just now; ``phase`` names the moment."""
        snapshot = self._snapshot()
        if snapshot is not None:
            self._readings.append((self._clock(), {"phase": phase, **_reading(snapshot)}))

    def send(self) -> None:
        """Send in the background what has come together; the next call waits for it by itself."""
        answers, self._answers = self._answers, []
        readings, self._readings = self._readings, []
        if answers or readings:
            self._sending = asyncio.create_task(self._send(self._sending, answers, readings))

    async def close(self, limit_s: float) -> None:
        """Give what is under way a moment to arrive."""
        self.send()
        if self._sending is not None:
            await asyncio.wait({self._sending}, timeout=limit_s)
            self._sending.cancel()

    async def _send(self, before: asyncio.Task[None] | None, answers: _Lines, readings: _Lines) -> None:
        if before is not None:
            await asyncio.wait({before})
        for first in range(0, max(len(answers), len(readings)), LINES_SENT):
            now = self._clock()
            parts = {"answers": answers, "readings": readings}
            lines = {
                kind: [{**line, "ago_s": round(now - at, 3)} for at, line in part[first : first + LINES_SENT]]
                for kind, part in parts.items()
            }
            # A host of an older ddtune knows no such verb.
            with contextlib.suppress(HelperRefused, HelperFailed, Unreachable):
                await self._link.once("keep", timeout=SEND_LIMIT_S, op=self._op, **lines)


def _line(stage: str, request: Request | None, answer: Answer) -> dict[str, Any]:
    return {
        "stage": stage,
        "id": answer.id,
        "path": request.path if request else None,
        "prompt": _prompt(request.body)[:PROMPT_CHARS] if request else None,
        "text": answer.text[:TEXT_CHARS],
        "reasoning": answer.reasoning[:TEXT_CHARS],
        "tokens": answer.completion_tokens,
        "finish": answer.finish_reason,
        "accept_length": answer.accept_length,
        "seconds": round(answer.seconds, 3),
        "status": answer.status,
        "error": answer.error,
    }


def _prompt(body: Mapping[str, Any]) -> str:
    messages = body.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[-1], Mapping):
        return str(messages[-1].get("content"))
    return str(body.get("text") or json.dumps(dict(body), ensure_ascii=False))


def _reading(snapshot: Snapshot) -> dict[str, Any]:
    service = {name: getattr(snapshot.service, name) for name in _SERVICE}
    gpus = {name: [getattr(gpu, name) for gpu in snapshot.gpus] for name in _GPU}
    return {**service, **gpus, "state": (snapshot.txn or {}).get("state"), "engine_age_s": snapshot.ages.engine}
