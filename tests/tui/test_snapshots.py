"""How every state looks: recorded moments at fixed sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from ddtune.tui.app import DdtuneApp
from ddtune.tui.view import View, aged
from tests.tui.fakes import FakeDesk, moment
from tests.tui.svg import picture

BOTH = [(80, 24), (160, 48)]


def named(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


async def shot(desk: Any, size: tuple[int, int], keys: Sequence[str] = (), theme: str | None = None) -> str:
    app = DdtuneApp(desk)
    async with app.run_test(size=size) as pilot:
        if theme is not None:
            app.theme = theme
        for key in keys:
            await pilot.press(key)
        await app.workers.wait_for_complete()
        await pilot.pause()
        await pilot.pause()
        return picture(app)


def snapshot_with(view: View, **fields: Any) -> View:
    return replace(view, snapshot=replace(view.snapshot, **fields))


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 48)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_live(svg: SnapshotAssertion, size: tuple[int, int]) -> None:
    assert await shot(FakeDesk(moment(), write=True), size) == svg


async def test_live_light(svg: SnapshotAssertion) -> None:
    assert await shot(FakeDesk(moment(), write=True), (120, 36), theme="ddtune-light") == svg


async def test_read_only(svg: SnapshotAssertion) -> None:
    assert await shot(FakeDesk(moment()), (80, 24)) == svg


@pytest.mark.parametrize("size", BOTH, ids=named)
async def test_stale(svg: SnapshotAssertion, size: tuple[int, int]) -> None:
    view = moment()
    old = replace(view, snapshot=aged(view.snapshot, view.snapshot.at + 12.0))
    assert await shot(FakeDesk(old, write=True), size) == svg


@pytest.mark.parametrize("size", BOTH, ids=named)
@pytest.mark.parametrize("state", ["link-lost", "gpu-lost", "no-gpm", "no-metrics", "no-permission"])
async def test_live_states(svg: SnapshotAssertion, state: str, size: tuple[int, int]) -> None:
    assert await shot(FakeDesk(moment(state)), size) == svg
