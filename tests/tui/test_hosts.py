"""Several hosts in one list: one line each, and none that waits for another."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from textual.pilot import Pilot

from ddtune.config.model import HostConfig
from ddtune.tui import paint_hosts
from ddtune.tui.desk import Desk
from ddtune.tui.fleet import FleetApp
from ddtune.tui.screens.hosts import HostLive, HostsScreen
from ddtune.tui.screens.progress import ProgressScreen
from tests.tui.fakes import FakeDesk, moment
from tests.tui.gate import Gate
from tests.tui.hands import listed, shown, until
from tests.tui.svg import picture


@asynccontextmanager
async def opened(desks: Sequence[Any], size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[None]]:
    app = FleetApp(desks)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield pilot


def three() -> list[FakeDesk]:
    """One that serves, one whose trial was rolled back, and one that cannot be reached."""
    states = (("b300", "live"), ("b300-2", "rolled-back"), ("b300-3", "link-lost"))
    desks = []
    for name, state in states:
        view = moment(state)
        desk = FakeDesk(replace(view, snapshot=replace(view.snapshot, host=name), run=None), write=True)
        desk.config = HostConfig(name, name)
        desks.append(desk)
    return desks


def row(pilot: Pilot[None], host: str) -> str:
    return next(line for line in shown(pilot).splitlines() if f" {host} " in line)


@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_three_hosts(svg: SnapshotAssertion, size: tuple[int, int]) -> None:
    async with opened(three(), size) as pilot:
        await pilot.pause()
        assert picture(pilot.app) == svg


def summed(*desks: FakeDesk) -> list[str]:
    """The numbers under a list of hosts."""
    return paint_hosts.lines([desk.view() for desk in desks], 0, 160, 20)[-1].plain.rpartition("up")[2].split()


def silent(desk: FakeDesk) -> FakeDesk:
    """The same host, up, without a reading."""
    snapshot = desk.view().snapshot
    desk.move(snapshot=replace(snapshot, gpus=(), service=replace(snapshot.service, tokens_per_s=None)))
    return desk


def test_a_sum_is_of_all_that_are_up_or_not_said() -> None:
    one, other, lost = three()
    assert all(float(number.replace(" ", "").replace(",", "")) > 0 for number in summed(one, lost))
    assert summed(one, silent(other), lost) == ["—", "—"]
    assert summed(lost, lost) == ["—", "—"]


async def test_enter_opens_one_and_q_leads_back() -> None:
    desks = three()
    async with opened(desks) as pilot:
        assert isinstance(pilot.app.screen, HostsScreen)
        assert not {"switch", "roll_back", "log", "history", "unlock", "profiles"} & listed(pilot)
        await pilot.press("b", "y", "s")
        assert all(desk.asked == [] for desk in desks)
        await pilot.press("j", "enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, HostLive)
        assert pilot.app.screen.desk is desks[1]
        assert {"switch", "roll_back", "log"} <= listed(pilot)
        await pilot.press("q")
        assert isinstance(pilot.app.screen, HostsScreen)
        await pilot.press("1")
        await pilot.pause()
        assert pilot.app.screen.desk is desks[0]
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, HostsScreen)
        await pilot.press("q")
        await pilot.pause()
        assert not pilot.app.is_running


async def test_a_change_touches_the_open_host_alone() -> None:
    desks = three()
    async with opened(desks) as pilot:
        await pilot.press("2")
        await pilot.pause()
        await pilot.press("b", "y")
        await pilot.pause()
        assert [desk.asked for desk in desks] == [[], ["go_back"], []]
        assert isinstance(pilot.app.screen, ProgressScreen)
        await pilot.press("q")
        assert isinstance(pilot.app.screen, HostLive)
        await pilot.press("q")
        assert isinstance(pilot.app.screen, HostsScreen)


async def test_a_dead_host_and_a_deaf_one_slow_no_other(host: HostConfig, tmp_path: Path) -> None:
    deaf = socket.create_server(("127.0.0.1", 0))
    with deaf, Gate(host, tmp_path) as gate:
        configs = (
            replace(host, name="well"),
            replace(gate.config, name="dying"),
            replace(host, name="deaf", port=deaf.getsockname()[1]),
        )
        desks = [Desk(config, write=False) for config in configs]
        try:
            async with opened(desks, (160, 48)) as pilot:
                began = time.monotonic()
                await until(pilot, lambda: "SERVING" in row(pilot, "well") and "SERVING" in row(pilot, "dying"))
                print(f"two of three serve after {time.monotonic() - began:.1f} s")
                gate.shut()
                await until(pilot, lambda: "LOST" in row(pilot, "dying"))
                moments: set[float] = set()

                def moving() -> bool:
                    snapshot = desks[0].view().snapshot
                    assert (snapshot.ages.gpus or 0.0) < 5.0
                    moments.add(round(snapshot.at - (snapshot.ages.gpus or 0.0), 1))
                    return len(moments) >= 5

                await until(pilot, moving)
                assert "SERVING" in row(pilot, "well")
                assert "2 of 3 up" not in shown(pilot)
                gate.open()
                await until(pilot, lambda: "SERVING" in row(pilot, "dying"))
        finally:
            for desk in desks:
                await asyncio.to_thread(desk.stop)
