"""A watch among troubles: receivers that hang, other people's changes, faults that last, a host that is not there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddtune.host.errors import Unreachable
from ddtune.rollout import notify, sights
from ddtune.rollout import watcher as module
from ddtune.rollout.canary import Canary
from ddtune.rollout.model import Outcome, ReleaseRef
from ddtune.rollout.notify import Notifier, Told
from ddtune.rollout.sights import Sight
from tests.unit.test_rollout_watcher import SERVING, Case, Session

B = ReleaseRef("b", "b" * 64)
HANG = Sight(5.0, "hang", "a short canary did not come back.")


def _case(monkeypatch: pytest.MonkeyPatch, folder: Path, *outcome: str) -> tuple[Case, Session, list[str]]:
    """A watch of a host that serves, and the changes that it makes, the first of which end as ``outcome`` says."""
    ends = iter(outcome)
    case, changes = Case(monkeypatch, folder), list[str]()
    session = Session(case.host)
    session.snapshot = SERVING

    async def change(_session: object, kind: str) -> Outcome:
        changes.append(kind)
        return Outcome("0001-b", next(ends, "committed"), None, B, B, B)

    monkeypatch.setattr(case.watcher, "_change", change)
    return case, session, changes


def _told(case: Case, word: str) -> list[str]:
    return [line for line in case.said if word in line]


def test_a_receiver_that_hangs_holds_up_neither_the_way_back_nor_the_watch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(notify, "_send", lambda *_: answers.wait(30))

    async def run() -> None:
        case, session, changes = _case(monkeypatch, tmp_path)
        case.watcher._notifier = Notifier(("hangs://",), Told(tmp_path / "hangs.json"), case.said.append)
        case.watcher._notifier.known([])
        async with asyncio.timeout(10):
            await case.watcher._heed(session, HANG)  # type: ignore[arg-type]  # a session of a test
            await case.watcher._tell(session, replace(SERVING, adopted=True))  # type: ignore[arg-type]  # as above
        assert changes == ["restart"]
        answers.set()
        await case.watcher._flush()
        assert not case.watcher._notifier.due

    asyncio.run(run())


def test_a_fault_that_lasts_is_told_once_for_each_thing_that_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def run() -> None:
        case, session, changes = _case(monkeypatch, tmp_path)
        for number in range(20):
            await case.watcher._heed(session, replace(HANG, at=float(number)))  # type: ignore[arg-type]  # of a test
        assert changes == ["restart"]
        first, then = _told(case, "b300: hang")
        assert "starts the same release again" in first
        assert "a person must look" in then
        case.watcher._lasting.clear()
        await case.watcher._heed(session, replace(HANG, at=99.0))  # type: ignore[arg-type]  # as above
        assert len(_told(case, "b300: hang")) == 3, "it had gone, and is back"

    asyncio.run(run())


def test_a_change_that_was_refused_is_tried_again_when_the_other_one_is_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One that was carried out is not, for an hour."""

    async def run() -> None:
        case, session, changes = _case(monkeypatch, tmp_path, "refused")
        now = [5000.0]
        case.watcher._clock = lambda: now[0]
        for step_s, expected in ((0.0, 1), (30.0, 1), (31.0, 2), (600.0, 2), (sights.AGAIN_S, 3)):
            now[0] += step_s
            await case.watcher._heed(session, HANG)  # type: ignore[arg-type]  # a session of a test
            assert len(changes) == expected, now

    asyncio.run(run())


def test_a_canary_that_is_right_ends_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def run() -> None:
        case = Case(monkeypatch, tmp_path)
        case.watcher._lasting.add(("hang", None))
        looked = asyncio.Event()

        async def look(*_: object) -> Sight:
            looked.set()
            return Sight(1.0, None, "")

        monkeypatch.setattr(Session, "snapshot", SERVING)
        monkeypatch.setattr(case.watcher, "_look", look)
        running = await case.begin()
        await asyncio.wait_for(looked.wait(), 10)
        case.asked.set()
        await running
        assert case.watcher._lasting == set()

    asyncio.run(run())


def _sees(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object] = lambda: None) -> Any:
    async def look(*_: object) -> Sight:
        meanwhile()
        return HANG

    monkeypatch.setattr(Canary, "look", look)
    monkeypatch.setattr(module.golden, "sizes_of", lambda _state: None)
    return Canary.__new__(Canary)


class State:
    def __init__(self) -> None:
        self.stable = self
        self.release = "r"

    def meta_of(self, _release: str) -> dict[str, Any]:
        return {}


def _of(release: str, op: str | None = None) -> Any:
    txn = {"op": op, "settled": True} if op else None
    return replace(SERVING, service=replace(SERVING.service, release=release), txn=txn)


def test_bad_canaries_of_two_releases_are_not_two_in_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else one accident before somebody's switch and one behind it would take the switch back."""

    async def run() -> None:
        case, session, _ = _case(monkeypatch, tmp_path)
        canary = _sees(monkeypatch)

        async def state(_limit: int) -> State:
            return State()

        monkeypatch.setattr(session, "state", state)
        for shown in (_of("a"), _of("b"), _of("b", "0002-b")):
            session.snapshot = shown
            await case.watcher._look(session, canary)  # type: ignore[arg-type]  # a session of a test
            assert sights.late_fault(case.watcher._sights) is None
        await case.watcher._look(session, canary)  # type: ignore[arg-type]  # as above
        assert sights.late_fault(case.watcher._sights) == HANG

        def begins() -> None:
            session.snapshot = _of("b", "0003-b")

        canary = _sees(monkeypatch, begins)
        seen = await case.watcher._look(session, canary)  # type: ignore[arg-type]  # as above
        assert seen.cause is None, "what a change did to a canary is no fault"

    asyncio.run(run())


def test_a_configuration_that_has_come_to_forbid_it_is_heeded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def run() -> None:
        case, session, changes = _case(monkeypatch, tmp_path)
        case.watcher._may_act = lambda: False
        await case.watcher._heed(session, HANG)  # type: ignore[arg-type]  # a session of a test
        assert changes == []
        assert any("a person must look" in line for line in _told(case, "b300: hang"))

    asyncio.run(run())


@pytest.mark.parametrize("jump_s", [0.0, 86400.0, -86400.0])
def test_a_host_that_was_never_reached_is_told_once_whatever_the_wall_clock_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jump_s: float
) -> None:
    now, wall = [0.0], [1000.0]

    async def opened(_session: object) -> None:
        raise Unreachable("refused", "b300 refuses connections.")

    async def run() -> None:
        case = Case(monkeypatch, tmp_path)
        case.watcher._clock = lambda: now[0]
        monkeypatch.setattr(module.time, "time", lambda: wall[0])
        monkeypatch.setattr(Session, "open", opened)
        monkeypatch.setattr(module, "WAIT_S", 0.001)
        running = asyncio.create_task(case.watcher.run(case.asked))
        async with asyncio.timeout(10):
            for seconds in (0.0, sights.BLIND_S - 1, 2.0, 300.0):
                now[0] += seconds
                wall[0] += seconds + jump_s
                tries = len(_told(case, "refuses connections"))
                while len(_told(case, "refuses connections")) < tries + 3:  # noqa: ASYNC110 (the watch has no event)
                    await asyncio.sleep(0.001)
                lost = _told(case, "link_lost")
                assert len(lost) == (1 if now[0] >= sights.BLIND_S else 0)
        assert "for 121 s" in lost[0]
        case.asked.set()
        await running

    asyncio.run(run())
