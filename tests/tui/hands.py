"""Hands and eyes of a test: the keys that live, what is seen, and waiting for what will be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from ddtune.config.model import HostConfig
from ddtune.tui.app import DdtuneApp
from ddtune.tui.desk import Desk
from ddtune.tui.screenshot import text


@asynccontextmanager
async def opened(config: HostConfig, *, write: bool, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[None]]:
    """The dashboard of a host in a terminal of ``size``."""
    desk = Desk(config, write=write)
    try:
        async with DdtuneApp(desk).run_test(size=size) as pilot:
            yield pilot
    finally:
        await asyncio.to_thread(desk.stop)


def shown(pilot: Pilot[None]) -> str:
    """All that stands on the screen, as text."""
    return text(pilot.app)


def alive(pilot: Pilot[None]) -> set[str]:
    """The actions whose keys work now."""
    return {one.binding.action for one in pilot.app.screen.active_bindings.values() if one.enabled}


def listed(pilot: Pilot[None]) -> set[str]:
    """The actions whose keys are shown now, dead ones too."""
    return {one.binding.action for one in pilot.app.screen.active_bindings.values()}


async def until(pilot: Pilot[None], holds: Callable[[], bool], limit_s: float = 20.0) -> None:
    """Wait for something that will be."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, shown(pilot)
        await pilot.pause(0.05)
    await pilot.pause()


async def typed(pilot: Pilot[None], text: str) -> None:
    for sign in text:
        await pilot.press(sign)
