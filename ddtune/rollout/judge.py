"""The gate over the helper: sends its requests on the host, reads the process back, counts what was ours."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ddtune.gate.model import Answer, Request
from ddtune.gate.process_facts import Facts
from ddtune.host.errors import HelperFailed, HelperRefused, Unreachable
from ddtune.rollout.link import HostLink
from ddtune.rollout.owner import owner
from ddtune.rollout.timing import Stopwatch

BUSY_RETRY_S = 1.0
SLACK_S = 20.0


class Judge:
    """Gives the gate its ``send`` and ``inspect`` on one host.

    ``sent`` counts the requests of ours that the engine may have counted: those on their way as well, and not those
    that never reached it. ``on_load`` is told each load with its answers.
    """

    def __init__(self, link: HostLink, stopwatch: Stopwatch) -> None:
        self._link = link
        self._stopwatch = stopwatch
        self.sent = 0
        self.env_names: tuple[str, ...] = ()
        # What the newest reading of the engine says, where somebody reads it.
        self.graphs: Callable[[], bool | None] = lambda: None
        self.model: Callable[[], str | None] = lambda: None
        self.on_load: Callable[[Sequence[Request], Sequence[Answer]], None] = lambda _requests, _answers: None

    async def send(self, requests: Sequence[Request], concurrency: int, deadline_s: float) -> list[Answer]:
        """One load on the host's loopback; waits while another one, such as a repeated call of ours, holds the lock."""
        give_up = time.monotonic() + deadline_s
        self.sent += len(requests)
        with self._stopwatch.excluded():
            while True:
                try:
                    answer = await self._link.call(
                        "load",
                        timeout=deadline_s + SLACK_S,
                        requests=[request.to_dict() for request in requests],
                        concurrency=concurrency,
                        timeout_s=max((request.timeout_s for request in requests), default=deadline_s),
                        deadline_s=deadline_s,
                        api_port=self._link.config.api_port,
                        api_key_file=self._link.config.api_key_file,
                    )
                except HelperRefused as error:
                    if error.cause != "busy" or time.monotonic() > give_up:
                        raise
                    await asyncio.sleep(BUSY_RETRY_S)
                    continue
                came = [Answer.from_dict(entry) for entry in answer["answers"]]
                self.sent -= sum(one.error_kind in ("connection", "not_sent") for one in came)
                self.on_load(requests, came)
                return came

    async def remember_left_out(self, op: str, not_planned: Mapping[str, str]) -> None:
        """A line of the host's history that says which checks a commit went without, and why.

        What cannot be said now is lost: the commit stands without it.
        """
        if not not_planned:
            return
        why = "; ".join(f"{name} ({reason})" for name, reason in not_planned.items())
        with contextlib.suppress(HelperRefused, HelperFailed, Unreachable):
            await self._link.call("judged", ok=True, text=f"{op} was judged without {why}"[:1000], owner=owner())

    async def inspect(self) -> Facts:
        """The facts of the main process, read back from the host."""
        return Facts.from_inspect(await self.inspected(), self.model(), self.graphs())

    async def inspected(self) -> dict[str, Any]:
        """The helper's whole ``inspect`` answer."""
        return await self._link.call("inspect", env=list(self.env_names))
