"""One generation inside the engine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ddtune.sim.engine.parting import Spoken


@dataclass(eq=False)
class Job:
    """A request to generate ``length`` tokens; times are own seconds, None until they happen.

    ``texts`` holds the tokens of a request that somebody waits for; the engine's own traffic has none. ``spoken`` says
    what becomes of them in the batch, None once that is done or where nothing does. ``done`` is
    resolved when the request ends, ``first`` when its first token is there. ``ended`` says that the answer ends by
    itself or by the stop string ``stopped_by``, ``known`` that its margins are too wide for a near-tie.
    """

    rid: str
    prompt_tokens: int
    length: int
    accept: float
    cached: int = 0
    stream: bool = False
    texts: tuple[str, ...] | None = None
    spoken: Spoken | None = None
    ended: bool = False
    stopped_by: str | None = None
    submitted: float = 0.0
    admitted: float | None = None
    first_at: float | None = None
    finished: float | None = None
    begin_v: float = 0.0
    aborted: bool = False
    first: asyncio.Future[None] | None = None
    done: asyncio.Future[None] | None = None
    produced: int = 0
    received_wall: float = 0.0
    health: bool = False
    known: bool = False

    @property
    def verify_calls(self) -> int:
        """Verify steps that the produced tokens took; at accept length 1.00 as many as tokens."""
        return max(1, round(self.produced / self.accept)) if self.produced else 0

    def signal(self, future: asyncio.Future[None] | None) -> None:
        """Wakes who waits for ``future``."""
        if future is not None and not future.done():
            future.set_result(None)
