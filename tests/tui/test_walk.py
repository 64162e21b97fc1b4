"""The life of an incident on a real embedded host, with keys only: see it, go back, read why, come back to live."""

from __future__ import annotations

import asyncio
import functools
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from textual.pilot import Pilot

from ddtune.config.model import HostConfig
from ddtune.config.resolve import resolve_host
from ddtune.tui.desk import Desk
from ddtune.tui.screens.history import HistoryScreen
from ddtune.tui.screens.live import LiveScreen
from ddtune.tui.screens.outcome import OutcomeScreen
from ddtune.tui.screens.progress import ProgressScreen
from tests.tui import hands
from tests.tui.embedded import ROOT, serving
from tests.tui.hands import alive, shown
from tests.tui.test_embedded import opened, plan, quick_gates

pytestmark = pytest.mark.timeout(400)
__all__ = ["quick_gates"]

until = functools.partial(hands.until, limit_s=180.0)


@pytest.fixture(scope="module")
def troubled() -> Iterator[HostConfig]:
    """A host of this module's own, since what fails here stays in quarantine."""
    with serving(40) as name:
        yield resolve_host(name)


def flat(pilot: Pilot[None]) -> str:
    return " ".join(shown(pilot).replace("│", " ").split())


async def test_a_crash_is_seen_explained_and_left_behind(troubled: HostConfig) -> None:
    async with opened(troubled, write=True) as pilot:
        desk: Desk = pilot.app.desk
        await until(pilot, lambda: desk.view().link_up and desk.view().snapshot.service.profile == "b8-nvls")
        await plan(pilot, "b12")
        assert "f tries it all the same" in flat(pilot)
        assert "--force" not in shown(pilot)
        await pilot.press("f")
        await until(pilot, lambda: "go_on" in alive(pilot))
        assert "FORCED" in shown(pilot)
        await pilot.press("enter", "y")
        await until(pilot, lambda: isinstance(pilot.app.screen, ProgressScreen))
        await until(pilot, lambda: "goes on going back to b8-nvls by itself" in flat(pilot))
        await until(pilot, lambda: isinstance(pilot.app.screen, OutcomeScreen))
        text = flat(pilot)
        assert "ROLLED BACK" in text
        assert "because illegal memory access" in text
        assert "differs --speculative-ddtree-budget: 8 → 12" in text
        assert "serves b8-nvls again" in text

        await pilot.press("H")
        assert isinstance(pilot.app.screen, HistoryScreen)
        await until(pilot, lambda: "rolled back from b12 because illegal memory access" in flat(pilot))
        assert "AcceleratorError" in flat(pilot)
        await pilot.press("q", "q")
        assert isinstance(pilot.app.screen, LiveScreen)
        await until(pilot, lambda: "SERVING" in shown(pilot) and "accept 4." in flat(pilot))
        # All that a stranger asks first, at 80 by 24: which GPU draws least, whether speculation works, why the last
        # switch was rolled back, and how to go back now.
        text = flat(pilot)
        assert "▼ least" in text
        assert re.search(r"accept 4\.\d\d of 4\.48", text)
        assert "rolled back from b12 because illegal memory access" in text
        assert "b Roll back" in text


async def test_what_somebody_else_began_is_seen_and_aborted_in_two_keys(troubled: HostConfig) -> None:
    command = [sys.executable, "-m", "ddtune.cli.main", "switch", troubled.name, "b16-eager", "--yes", "--json"]
    async with opened(troubled, write=True) as pilot:
        desk: Desk = pilot.app.desk
        await until(pilot, lambda: desk.view().link_up and desk.view().snapshot.service.profile == "b8-nvls")
        other = await asyncio.to_thread(
            subprocess.Popen, command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            await until(pilot, lambda: (desk.view().txn or {}).get("state") in ("TRIAL", "SOAK"))
            await until(pilot, lambda: "b16-eager" in shown(pilot).splitlines()[1])
            await pilot.press("o")
            await until(pilot, lambda: "by whoever began it" in flat(pilot))
            assert "drain" in shown(pilot)
            await pilot.press("b")
            await pilot.pause()
            assert "Abort the trial of" in flat(pilot)
            await pilot.press("y")
            await until(pilot, lambda: isinstance(pilot.app.screen, OutcomeScreen))
            assert "ROLLED BACK" in shown(pilot)
            assert "aborted" in shown(pilot)
            out, _ = await asyncio.to_thread(other.communicate, None, 120)
            assert other.returncode == 3
            assert b'"cause": "aborted"' in out
            await pilot.press("q")
            assert isinstance(pilot.app.screen, LiveScreen)
            await until(pilot, lambda: desk.view().snapshot.service.profile == "b8-nvls" and "SERVING" in shown(pilot))
        finally:
            if other.poll() is None:
                other.kill()
                other.wait()
