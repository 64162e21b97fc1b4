"""A watch over a service that changes: what it tells, and what it does, hours of it on a clock that costs nothing."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from ddtune.config.model import HostConfig
from ddtune.live.snapshot import Ages, Link, ServiceReading, Snapshot
from ddtune.live.worker import Worker
from ddtune.rollout.canary import Canary
from ddtune.rollout.model import Outcome, ReleaseRef
from ddtune.rollout.notify import Notifier
from ddtune.rollout.session import Session
from ddtune.rollout.sights import Notice, Sight
from ddtune.rollout.watcher import Watcher
from tests.unit.virtual import in_virtual_time

SEED = 7


class Host:
    """A session, its canary and who is told, in one. ``length`` gives the accept length by seconds."""

    def __init__(self, length: Callable[[float], float], wrong: Callable[[float], bool] = lambda _: False) -> None:
        self.length, self.wrong = length, wrong
        self.told: list[tuple[float, Notice]] = []
        self.done: list[str] = []
        self.fresh = self.due = False

    @property
    def snapshot(self) -> Snapshot:
        now = asyncio.get_running_loop().time()
        service = ServiceReading(
            state="active", health="serving", running=9, accept_length=self.length(now), release="r1",
            standing="probation", previous_profile="b8",
        )  # fmt: skip
        return Snapshot("b300", now, Link("up"), service=service, ages=Ages(engine=0.2), adopted=True)

    async def plan(self, kind: str, **_: Any) -> None:
        self.done.append(kind)

    async def run(self, _progress: Callable[[Any], None]) -> Outcome:
        none = ReleaseRef(None, None)
        return Outcome("0001-b8", "committed", None, none, none, none)

    def take(self, notices: Sequence[Notice]) -> int:
        self.told += [(asyncio.get_running_loop().time(), one) for one in notices]
        return len(notices)

    def known(self, _notices: Sequence[Notice]) -> None: ...


def watched(host: Host, hours: float) -> list[str]:
    """The titles of what was told within so many hours of a canary a minute."""
    clock = asyncio.get_running_loop

    class Clocked(Watcher):
        async def _look(self, session: Session, canary: Canary) -> Sight:
            now = clock().time()
            cause = "garbage_output" if host.wrong(now) else None
            self._sights = [*self._sights, Sight(now, cause, "a word 40 times.", None if cause else 4.4)][-10:]
            return self._sights[-1]

    async def go() -> None:
        watcher = Clocked(
            HostConfig("b300", "b300"), cast("Worker", None), cast("Notifier", host), lambda _: None,
            every_s=60.0, acts=True, clock=clock().time,
        )  # fmt: skip
        loop = watcher._loop(cast("Session", host), cast("Canary", None))
        with suppress(TimeoutError):
            await asyncio.wait_for(loop, 3600 * hours)

    in_virtual_time(go())
    return [notice.title for _, notice in host.told]


def around(mean: float, rng: random.Random) -> float:
    return rng.gauss(mean, 0.3)


def test_a_sound_service_is_watched_in_silence() -> None:
    rng = random.Random(SEED)
    host = Host(lambda _: around(4.4, rng), lambda _: rng.random() < 0.005)
    assert watched(host, 2) == []
    assert host.done == []


def test_an_accept_length_that_drifts_after_the_gate_is_told_and_left_alone() -> None:
    rng = random.Random(SEED)
    host = Host(lambda at: around(4.4 if at < 1800 else 3.4, rng))
    assert watched(host, 1.5) == ["b300: drift"]
    assert host.done == []


def test_drafts_that_are_accepted_no_more_are_gone_back_from_once() -> None:
    host = Host(lambda at: 4.4 if at < 600 else 1.0)
    assert watched(host, 0.5)[0] == "b300: accept_collapse"
    assert host.done == ["rollback"]
    assert host.told[0][0] < 650


def test_garbage_now_and_then_is_gone_back_from() -> None:
    """One canary in three, so never two in a row."""
    looks = itertools.count()
    host = Host(lambda _: 4.4, lambda at: at > 1200 and next(looks) % 3 == 0)
    assert watched(host, 1.5)[0] == "b300: garbage_output"
    assert host.done[0] == "rollback"
    assert "canaries were answered wrongly" in host.told[0][1].body
