"""How a headless watch ends: on purpose it is heard of no more, and by a fault of its own it is missed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddtune.config.model import HostConfig
from ddtune.host.errors import Unreachable
from ddtune.live.snapshot import Link as LinkReading
from ddtune.live.snapshot import ServiceReading, Snapshot
from ddtune.live.worker import Worker
from ddtune.rollout import watcher as module
from ddtune.rollout.notify import Notifier, Told
from ddtune.rollout.sights import Sight
from ddtune.rollout.watcher import Watcher

UNIT = "engine.service"
SERVING = Snapshot("b300", 0.0, LinkReading("up"), service=ServiceReading(state="active", health="serving"))


class Host:
    """A host that is as slow with a sign of life as ``slow`` says, and keeps the last one, as the helper does."""

    def __init__(self) -> None:
        self.kept = False
        self.heard: list[str] = []
        self.begun = asyncio.Event()
        self.slow = asyncio.Event()
        self.slow.set()
        self.down = False

    async def once(self, verb: str, **fields: Any) -> dict[str, Any]:
        assert verb == "watching"
        self.begun.set()
        await self.slow.wait()
        if self.down:
            raise Unreachable("lost", "the link to b300 is lost.")
        self.kept = not fields.get("over")
        self.heard.append("over" if fields.get("over") else "alive")
        return {}


class Link:
    def __init__(self, host: Host) -> None:
        self.unit = UNIT
        self.once = host.once
        self.open = True

    async def call(self, verb: str, *, patience_s: float, **fields: Any) -> dict[str, Any]:
        return await self.once(verb, **fields)

    async def __aenter__(self) -> Link:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.open = False


class Session:
    snapshot: Snapshot | None = None

    def __init__(self, host: Host) -> None:
        self.link = Link(host)

    async def open(self) -> None:
        pass

    async def state(self, _limit: int) -> SimpleNamespace:
        return SimpleNamespace(adopted=True)

    async def close(self) -> None:
        assert self.link.open


class Case:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.host = Host()
        self.said: list[str] = []
        monkeypatch.setattr(module, "Session", lambda *_: Session(self.host))
        monkeypatch.setattr(module, "HostLink", lambda *_: Link(self.host))
        with Worker() as worker:
            notifier = Notifier((), Told(folder / "told.json"), self.said.append)
            config = HostConfig(name="b300", ssh="b300", unit=UNIT, write=True)
            self.watcher = Watcher(config, worker, notifier, self.said.append, every_s=60, acts=True)
        self.asked = asyncio.Event()

    async def begin(self) -> asyncio.Task[None]:
        running = asyncio.create_task(self.watcher.run(self.asked))
        async with asyncio.timeout(10):
            await self.host.begun.wait()
        return running


def test_an_asked_end_waits_for_the_beat_that_a_busy_host_is_slow_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def run() -> None:
        case = Case(monkeypatch, tmp_path)
        case.host.slow.clear()
        running = await case.begin()
        case.asked.set()
        await asyncio.wait((running,), timeout=0.2)
        assert not running.done()
        case.host.slow.set()
        await asyncio.wait_for(running, 10)
        assert case.host.heard == ["alive", "over"]
        assert not case.host.kept

    asyncio.run(run())


def test_a_change_that_has_begun_is_carried_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def run() -> None:
        case = Case(monkeypatch, tmp_path)
        running = await case.begin()
        async with case.watcher._changing:
            case.asked.set()
            await asyncio.wait((running,), timeout=0.2)
            assert not running.done()
            assert any("ends when the change it has begun is over" in line for line in case.said)
            assert "over" not in case.host.heard
        await asyncio.wait_for(running, 10)
        assert case.host.heard[-1] == "over"

    asyncio.run(run())


def test_a_watch_that_ends_by_a_fault_of_its_own_is_missed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def run() -> None:
        case = Case(monkeypatch, tmp_path)

        async def broken(*_: object) -> None:
            await case.host.begun.wait()
            raise RuntimeError("a bug")

        monkeypatch.setattr(case.watcher, "_tell", broken)
        running = await case.begin()
        with pytest.raises(RuntimeError, match="a bug"):
            await asyncio.wait_for(running, 10)
        assert case.host.heard == ["alive"]
        assert case.host.kept

    asyncio.run(run())


async def _looks(case: Case, monkeypatch: pytest.MonkeyPatch, causes: list[str | None]) -> list[float]:
    """The moments of the canaries, which see ``causes`` in turn."""
    at: list[float] = []

    done = asyncio.Event()

    async def look(*_: object) -> Sight:
        at.append(time.monotonic())
        if len(at) == len(causes):
            done.set()
        return Sight(0.0, causes[len(at) - 1], "")

    monkeypatch.setattr(Session, "snapshot", SERVING)
    monkeypatch.setattr(case.watcher, "_look", look)
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    running = await case.begin()
    await asyncio.wait_for(done.wait(), 20)
    case.asked.set()
    await running
    return at


def test_canaries_come_at_the_operators_rate_and_sooner_behind_a_bad_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def run() -> None:
        case = Case(monkeypatch, tmp_path)
        case.watcher._every_s = 0.3
        first, second, third = await _looks(case, monkeypatch, [None, None, None])
        assert second - first >= 0.3
        assert third - second >= 0.3
        case = Case(monkeypatch, tmp_path)
        # At the operator's rate the second would not come while this test lasts.
        case.watcher._every_s = 3600
        monkeypatch.setattr(module, "AGAIN_S", 0.05)
        await _looks(case, monkeypatch, ["hang", None])

    asyncio.run(run())


def test_who_cannot_say_farewell_says_what_follows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def run() -> None:
        case = Case(monkeypatch, tmp_path)
        running = await case.begin()
        case.host.down = True
        case.asked.set()
        await asyncio.wait_for(running, 10)
        assert any("will call it missed" in line and "is lost" in line for line in case.said)

    asyncio.run(run())


def test_ends_that_a_reading_has_no_room_for_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """While the link was down more happened than the newest lines that a reading has."""
    lines = tuple({"op": f"{number:04}-b", "event": "committed", "to": {"profile": "b"}} for number in range(60))

    class WithHistory(Session):
        asked = 0

        async def state(self, limit: int) -> SimpleNamespace:
            self.asked += 1
            return SimpleNamespace(adopted=True, history=lines[-limit:])

    async def run() -> None:
        case = Case(monkeypatch, tmp_path)
        session: Any = WithHistory(case.host)
        first, later = (replace(SERVING, adopted=True, history=lines[:end][-20:]) for end in (20, 60))
        await case.watcher._tell(session, first)
        assert case.said == [], "what was there before the first watch is no news"
        await case.watcher._tell(session, later)
        assert [line.partition("to b")[0] for line in case.said] == ["b300: committed: committed "] * 40
        asked = session.asked
        await case.watcher._tell(session, later)
        assert (len(case.said), session.asked) == (40, asked), "nothing is asked while the lines go on"

    asyncio.run(run())
