"""How every screen looks, at moments recorded from embedded hosts (``python -m tests.tui.record_changes``)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from ddtune.rollout.model import Plan
from ddtune.tui.app import DdtuneApp
from ddtune.tui.screens.base import DeskScreen
from ddtune.tui.view import View
from tests.tui.fakes import NAME, FakeDesk, done, moment
from tests.tui.record_changes import Known
from tests.tui.recorded import read
from tests.tui.svg import picture

SIZES = ((80, 24), (160, 48))
sizes = pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")


class Desk(FakeDesk):
    """Answers as the recorded host did."""

    def __init__(self, view: View, *, write: bool = True, protected: bool = False, plan: str = "plan") -> None:
        super().__init__(view, write=write, protected=protected, plan=replace(read(plan, Plan), host=NAME))

    def catalogue(self) -> Future[Any]:
        known = read("profiles", Known).entries
        return done(tuple(one for one in known if one.profile.name in self.profiles))


async def shot(desk: FakeDesk, size: tuple[int, int], keys: Sequence[str]) -> str:
    app = DdtuneApp(desk)
    async with app.run_test(size=size) as pilot:
        for key in keys:
            await pilot.press(key)
            await app.workers.wait_for_complete()
            await pilot.pause()
        # What a busy machine has not painted yet.
        for screen in app.screen_stack:
            if isinstance(screen, DeskScreen):
                screen.refresh_view()
        await pilot.pause()
        await pilot.pause()
        return picture(app)


@sizes
@pytest.mark.parametrize(
    "name", ["trial", "probation", "rolling-back", "rolled-back", "rollback-failed", "host-action"]
)
async def test_live(svg: SnapshotAssertion, name: str, size: tuple[int, int]) -> None:
    assert await shot(Desk(moment(name)), size, []) == svg


@sizes
@pytest.mark.parametrize("name", ["trial", "progress", "rolling-back"])
async def test_progress(svg: SnapshotAssertion, name: str, size: tuple[int, int]) -> None:
    assert await shot(Desk(moment(name)), size, ["o"]) == svg


@sizes
@pytest.mark.parametrize("name", ["probation", "rolled-back", "rollback-failed", "host-action"])
async def test_outcome(svg: SnapshotAssertion, name: str, size: tuple[int, int]) -> None:
    assert await shot(Desk(moment(name)), size, ["o"]) == svg


@sizes
async def test_unlocking_and_unlocked(svg: SnapshotAssertion, size: tuple[int, int]) -> None:
    assert await shot(Desk(moment(), write=False), size, ["W"]) == svg(name="asks")
    assert await shot(Desk(moment(), write=False), size, ["W", *NAME, "enter"]) == svg(name="unlocked")


@sizes
async def test_profiles(svg: SnapshotAssertion, size: tuple[int, int]) -> None:
    assert await shot(Desk(moment("probation")), size, ["P", "j"]) == svg


@sizes
@pytest.mark.parametrize("name", ["plan", "refused", "forced"])
async def test_plan(svg: SnapshotAssertion, name: str, size: tuple[int, int]) -> None:
    keys = {"plan": ["P", "j", "enter"], "refused": ["P", "enter"], "forced": ["P", "enter", "f"]}[name]
    plan = "refused" if name == "forced" else name
    assert await shot(Desk(moment("probation"), plan=plan), size, keys) == svg


@sizes
@pytest.mark.parametrize("protected", [False, True], ids=["open", "protected"])
async def test_confirmation(svg: SnapshotAssertion, protected: bool, size: tuple[int, int]) -> None:
    desk = Desk(moment("probation"), protected=protected)
    assert await shot(desk, size, ["P", "j", "enter", "enter"]) == svg


@sizes
@pytest.mark.parametrize("name", ["probation", "trial"])
async def test_going_back_is_asked_for(svg: SnapshotAssertion, name: str, size: tuple[int, int]) -> None:
    assert await shot(Desk(moment(name)), size, ["b"]) == svg


@sizes
async def test_log_with_a_filter(svg: SnapshotAssertion, size: tuple[int, int]) -> None:
    desk = Desk(moment("rolled-back"))
    assert await shot(desk, size, ["l"]) == svg
    assert await shot(desk, size, ["l", "e", "e"]) == svg(name="errors")


@sizes
async def test_history_and_incidents(svg: SnapshotAssertion, size: tuple[int, int]) -> None:
    assert await shot(Desk(moment("rolled-back")), size, ["H"]) == svg


@sizes
async def test_help_and_palette(svg: SnapshotAssertion, size: tuple[int, int]) -> None:
    assert await shot(Desk(moment()), size, ["question_mark"]) == svg(name="help")
    assert await shot(Desk(moment()), size, ["colon"]) == svg(name="palette")
