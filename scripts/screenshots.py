"""Makes screenshots/ from a running embedded host: live, a plan, a switch under way, one rolled back, and its traces.

    .venv/bin/python scripts/screenshots.py [FOLDER]

Takes about five minutes. PNGs need a Chromium; without one only SVGs are made.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from textual.pilot import Pilot

from ddtune.config.model import HostConfig
from ddtune.config.resolve import resolve_host
from ddtune.tui.app import DdtuneApp
from ddtune.tui.desk import Desk
from ddtune.tui.fleet import FleetApp
from ddtune.tui.screens.outcome import OutcomeScreen
from ddtune.tui.screens.plan import PlanScreen
from ddtune.tui.screens.progress import ProgressScreen

SIZES = ((80, 24), (160, 48))
WAIT_S = 180.0
BEFORE_S = 45.0
AFTER_S = 60.0


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    with embedded() as config:
        asyncio.run(scenes(config, folder))
    for svg in sorted(folder.glob("*.svg")):
        png(svg)


@contextmanager
def embedded() -> Iterator[HostConfig]:
    """A fresh embedded host that ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ddtune.cli.main", "demo", "--serve", "--until-eof", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"DDTUNE_SIM_SPEED": "20", **os.environ},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        # As `ddtune demo` calls it.
        yield replace(resolve_host(json.loads(process.stdout.readline())["host"]), name="demo")
    finally:
        process.stdin.close()
        process.wait(30)


async def scenes(config: HostConfig, folder: Path) -> None:
    """Drive the dashboard by its keys and keep what it shows."""
    desk = Desk(config, write=True)
    app = DdtuneApp(desk)
    try:
        async with app.run_test(size=SIZES[-1]) as pilot:
            await until(pilot, lambda: desk.view().snapshot.service.ttft_p50_s is not None)
            await asyncio.sleep(BEFORE_S)
            await plan(pilot, "b16-eager")
            await keep(pilot, folder, "plan")
            await pilot.press("enter", "y")
            await until(pilot, lambda: any(one.progress.phase == "full" for one in desk.view().run.steps))
            await asyncio.sleep(2)
            await keep(pilot, folder, "progress")
            await pilot.press("a", "y")
            await until(pilot, lambda: isinstance(app.screen, OutcomeScreen))
            await pilot.press("q")

            await plan(pilot, "b12")
            await keep(pilot, folder, "plan-refused")
            await pilot.press("f")
            await until(pilot, lambda: app.screen.check_action("go_on", ()) is True)
            await pilot.press("enter", "y")
            await until(pilot, lambda: isinstance(app.screen, ProgressScreen))
            await until(pilot, lambda: isinstance(app.screen, OutcomeScreen))
            await keep(pilot, folder, "rolled-back")
            await pilot.press("H")
            await pilot.pause(2.0)
            await keep(pilot, folder, "history")
            await pilot.press("q", "q", "P")
            await pilot.pause(5.0)
            await keep(pilot, folder, "profiles")
            await pilot.press("q")

            # What happened is in the charts by now.
            await asyncio.sleep(AFTER_S)
            await keep(pilot, folder, "live")
            await pilot.press("t")
            await keep(pilot, folder, "live-light")
            await pilot.press("t", "t", "t")
            await pilot.resize_terminal(*SIZES[-1])
            await pilot.press("4", "m")
            await keep(pilot, folder, "chart", SIZES[-1:])
    finally:
        await asyncio.to_thread(desk.stop)
    await hosts(config, folder)


async def hosts(config: HostConfig, folder: Path) -> None:
    """Two hosts that serve and one that nobody answers for."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    names = (("b300", config.port), ("b300-2", config.port), ("b300-3", port))
    desks = [Desk(replace(config, name=name, port=at), write=False) for name, at in names]
    app = FleetApp(desks)
    try:
        async with app.run_test(size=SIZES[-1]) as pilot:
            await until(pilot, lambda: all(one.view().snapshot.service.ttft_p50_s is not None for one in desks[:2]))
            await asyncio.sleep(BEFORE_S)
            await keep(pilot, folder, "hosts")
    finally:
        for one in desks:
            await asyncio.to_thread(one.stop)


async def plan(pilot: Pilot[None], name: str) -> None:
    """Open the plan of a switch to ``name``."""
    app = pilot.app
    await pilot.press("P")
    names = list(app.desk.profiles)  # type: ignore[attr-defined]  # it is ours
    await pilot.pause(1.0)
    app.screen.query_one("#profile-list").highlighted = names.index(name)  # type: ignore[attr-defined]  # the list
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, PlanScreen) and app.screen._plan is not None)


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    """Wait for something that will be."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it never came on {pilot.app.screen}")
        await pilot.pause(0.1)
    await pilot.pause(0.2)


async def keep(pilot: Pilot[None], folder: Path, name: str, sizes: Sequence[tuple[int, int]] = SIZES) -> None:
    """The present screen in each size as SVG."""
    for width, height in sizes:
        await pilot.resize_terminal(width, height)
        await pilot.pause(1.2)
        (folder / f"{name}-{width}x{height}.svg").write_text(pilot.app.export_screenshot(title="ddtune"))


def png(svg: Path) -> None:
    """The same as PNG, drawn by a browser: others draw braille and blocks too wide."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.stderr.write(f"no Chromium: {svg.name} stays without a PNG\n")
        return
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg.read_text())
    assert box is not None
    size = f"{round(float(box[1]))},{round(float(box[2]))}"
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                chromium,
                *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
                *("--disable-background-networking", "--disable-sync", f"--user-data-dir={profile}"),
                *(f"--screenshot={svg.with_suffix('.png').resolve()}", f"--window-size={size}"),
                svg.resolve().as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )


if __name__ == "__main__":
    main()
