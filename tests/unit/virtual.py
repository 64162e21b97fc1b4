"""The simulated engine in this process on a clock of its own: what waits costs nothing."""

from __future__ import annotations

import asyncio
import json
import selectors
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from ddtune.gate.model import Answer
from ddtune.gate.model import Request as Asked
from ddtune.onhost.load import read_answer
from ddtune.sim.engine.api import Api
from ddtune.sim.engine.clock import Clock
from ddtune.sim.engine.engine import Engine
from ddtune.sim.engine.faults import faults
from ddtune.sim.engine.launch import launch
from ddtune.sim.engine.lines import Log
from ddtune.sim.engine.settings import Settings
from ddtune.sim.engine.web import Request

T = TypeVar("T")
COMMON = (
    "--model-path /models/Kimi-K2.6 --tp-size 8 --enable-nccl-nvls --enable-metrics --page-size 1 "
    "--max-running-requests 128"
)
TREE = (
    "--speculative-algorithm DDTREE --speculative-draft-model-path /models/Kimi-K2.6-DFlash "
    "--speculative-draft-window-size 2048 --speculative-ddtree-budget {budget}"
)


class _Skipping(selectors.SelectSelector):
    """Waits for nothing: the time that the loop would sleep passes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing is left that could happen"
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose seconds take no time."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now

    def run_in_executor(self, _executor: Any, work: Callable[..., Any], *arguments: Any) -> Any:
        """At once and here: a thread would be waited for in virtual time."""
        done = self.create_future()
        done.set_result(work(*arguments))
        return done


class _LoopClock(Clock):
    def now(self) -> float:
        return asyncio.get_running_loop().time()


class _Silent(Log):
    def rank(self, *_: Any, **__: Any) -> None:
        pass

    server = access = rank


def in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` gives, run on a virtual loop."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


class VirtualService:
    """A serving engine, made and used inside :func:`in_virtual_time`; ``requests`` and ``tokens`` count its answers."""

    def __init__(self, scenario: str = "", *, seed: int = 0, budget: int | None = 8, flags: str = "") -> None:
        settings = Settings(speed=1.0, seed=seed)
        argv = f"{COMMON} {'' if budget is None else TREE.format(budget=budget)} {flags}".split()
        started = launch(argv, settings)
        found = faults(started.axes, settings.gpu, scenario)
        self.engine = Engine(started, settings, found, _Silent(started.axes.tp_size), _LoopClock(1.0))
        self.engine.ready()
        self._api = Api(self.engine)
        self.requests = self.tokens = 0

    async def send(self, requests: Sequence[Asked], concurrency: int, deadline_s: float) -> list[Answer]:
        """As the host's load program sends: at most ``concurrency`` at a time, cut at ``deadline_s``."""
        loop = asyncio.get_running_loop()
        places, end = asyncio.Semaphore(concurrency), loop.time() + deadline_s

        async def one(asked: Asked) -> Answer:
            async with places:
                begun = loop.time()
                limit = min(asked.timeout_s, end - begun)
                if limit <= 0:
                    return Answer(asked.id, error="cut by time", error_kind="cut")
                try:
                    status, raw = await asyncio.wait_for(self._post(asked), limit)
                except TimeoutError:
                    kind = "cut" if loop.time() >= end else "timeout"
                    return Answer(asked.id, error=f"no answer in {limit:.0f} s", error_kind=kind, seconds=limit)
                return Answer.from_dict({**read_answer(status, raw), "id": asked.id, "seconds": loop.time() - begun})

        self.requests += len(requests)
        answers = list(await asyncio.gather(*map(one, requests)))
        self.tokens += sum(answer.completion_tokens for answer in answers)
        return answers

    async def _post(self, asked: Asked) -> tuple[int, bytes]:
        body = json.dumps(dict(asked.body)).encode()
        response = await self._api.handle(Request("POST", asked.path, {}, {}, body, "127.0.0.1:1"))
        if response.chunks is None:
            return response.status, response.body
        return response.status, b"".join([part async for part in response.chunks])
