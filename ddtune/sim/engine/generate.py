"""One generation seen from the API: wait for it, stream it, write its answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from ddtune.sim.engine.continuation import near
from ddtune.sim.engine.engine import Engine
from ddtune.sim.engine.meta import meta_info
from ddtune.sim.engine.params import Ask
from ddtune.sim.engine.vocabulary import EOS_ID, dice, token_id

CHUNK_REAL_S = 0.05


class Generation:
    """A submitted request. A client that goes away cancels the wait, which aborts the request."""

    def __init__(self, engine: Engine, ask: Ask) -> None:
        self.engine, self.ask = engine, ask
        self.job = engine.submit(ask)

    def text(self, produced: int, begin: int = 0) -> str:
        """The text of the tokens from ``begin`` up to ``produced``."""
        return "".join(self.engine.said(self.job, produced)[begin:])

    def ids(self, produced: int) -> list[int]:
        """The ids of the first ``produced`` tokens, the end token among them."""
        ids = [token_id(text) for text in self.engine.said(self.job, produced)]
        return ids + [EOS_ID] * (produced - len(ids))

    async def wait(self) -> None:
        """Until the generation has ended."""
        job = self.job
        assert job.done is not None
        try:
            # Shielded, because a cancelled waiter must not cancel what the batch will resolve.
            await asyncio.shield(job.done)
        except asyncio.CancelledError:
            self.engine.abort(lambda other: other is job)
            raise

    async def whole(self) -> dict[str, Any]:
        """The final answer of ``/generate``."""
        await self.wait()
        return self.body(self.job.produced)

    def body(self, produced: int) -> dict[str, Any]:
        """The answer of ``/generate`` with ``produced`` tokens."""
        info = meta_info(self.engine, self.job, produced)
        ids = self.ids(produced)
        if self.ask.logprob:
            info |= logprobs(ids, self.ask.top_logprobs, self._runners_up(produced))
        return {"text": self.text(produced), "output_ids": ids, "meta_info": info}

    def _runners_up(self, produced: int) -> dict[int, int]:
        """The almost equally likely tokens of a greedy continuation, by position."""
        if self.ask.chat or self.ask.sampled or self.job.known:
            return {}
        said = self.engine.said(self.job, produced)
        found: dict[int, int] = {}
        for text in near(self.ask.prompt, len(said)):
            at = next((at for at, (one, two) in enumerate(zip(said, text, strict=False)) if one != two), None)
            if at is not None:
                found.setdefault(at, token_id(text[at]))
        return found


async def chunks(made: Generation) -> AsyncIterator[int]:
    """How many tokens there are, each time that there are more; the last one when the generation has ended."""
    job = made.job
    assert job.first is not None
    assert job.done is not None
    shown = 0
    try:
        await asyncio.shield(job.first)
        while job.finished is None:
            made.engine.look()
            produced = made.engine.batch.progress(job)
            if produced > shown and job.finished is None:
                shown = produced
                yield produced
            await asyncio.wait([job.done], timeout=CHUNK_REAL_S)
    except (asyncio.CancelledError, GeneratorExit):
        made.engine.abort(lambda other: other is job)
        raise
    yield job.produced


def sse(value: Any) -> bytes:
    """One server-sent event."""
    return f"data: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


def logprobs(ids: list[int], top: int, runners_up: Mapping[int, int]) -> dict[str, Any]:
    """Log probabilities as sharp as a greedy model's mostly are, but where ``runners_up`` has a position's near-tie."""
    pairs, others = [], []
    for at, one in enumerate(ids):
        spread = (dice("logprob", one, at) % 1000) / 1000
        first, gap = (
            (-0.7 - 0.1 * spread, 0.4 * spread) if at in runners_up else (-0.001 - 0.4 * spread, 2 + 6 * spread)
        )
        pairs.append([first, one, None])
        others.append(
            [
                [first - gap * rank, runners_up.get(at, one + 1) if rank == 1 else one + rank, None]
                for rank in range(top)
            ]
        )
    return {
        "input_token_logprobs": [],
        "output_token_logprobs": pairs,
        "output_token_logprobs_length": len(pairs),
        **({"input_top_logprobs": [], "output_top_logprobs": others} if top else {}),
    }
