"""The whole dashboard on a real embedded host, driven by its keys alone."""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from ddtune.config.model import HostConfig
from ddtune.tui.desk import Desk
from ddtune.tui.screens.live import LiveScreen
from ddtune.tui.screens.outcome import OutcomeScreen
from ddtune.tui.screens.plan import PlanScreen
from tests.tui import hands
from tests.tui.embedded import shorter_gates
from tests.tui.gate import Gate
from tests.tui.hands import alive, listed, opened, shown

pytestmark = pytest.mark.timeout(240)

LIMIT_S = 150.0
until = functools.partial(hands.until, limit_s=LIMIT_S)


@pytest.fixture(autouse=True)
def quick_gates(settled: None) -> None:
    shorter_gates()


async def plan(pilot: Pilot[None], name: str) -> PlanScreen:
    """Open the plan of a switch to a profile, by keys."""
    await pilot.press("P")
    profiles = list(pilot.app.desk.profiles)
    await until(pilot, lambda: len(pilot.app.screen.query(OptionList)) == 1)
    await pilot.press(*["j"] * profiles.index(name), "enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, PlanScreen) and "Reading the host" not in shown(pilot))
    return pilot.app.screen


async def test_eight_gpus_and_the_verdict_within_seconds(host: HostConfig) -> None:
    async with opened(replace(host, write=False), write=False) as pilot:
        began = time.monotonic()
        await until(pilot, lambda: len(pilot.app.desk.view().snapshot.gpus) == 8)
        print(f"first gauges after {time.monotonic() - began:.1f} s")
        await until(pilot, lambda: "SERVING" in shown(pilot) and "b8-nvls" in shown(pilot))
        text = shown(pilot)
        watts = [line.split()[2] for line in text.splitlines() if line[:3].strip().isdigit() and "█" in line]
        assert len(watts) == 8
        assert all(100 < int(one) < 1100 for one in watts)
        assert "simulated" in text
        assert "READ-ONLY" in text
        assert not {"switch", "roll_back"} & listed(pilot)


async def test_what_is_known_to_be_bad_is_refused_with_its_reason(host: HostConfig) -> None:
    async with opened(host, write=True) as pilot:
        await until(pilot, lambda: pilot.app.desk.view().link_up)
        await plan(pilot, "b12")
        text = " ".join(shown(pilot).replace("│", " ").split())
        assert "REFUSED: known bad" in text
        assert "illegal memory access" in text
        assert "--speculative-ddtree-budget: 8 → 12" in text
        assert "go_on" not in listed(pilot)
        assert "force" in alive(pilot)


async def test_a_switch_commits_and_two_keys_lead_back(host: HostConfig) -> None:
    async with opened(host, write=True) as pilot:
        desk: Desk = pilot.app.desk
        await until(pilot, lambda: desk.view().link_up)
        await plan(pilot, "b16-eager")
        await pilot.press("enter", "y")
        await until(pilot, lambda: "If you close the laptop now: the host goes back to b8-nvls" in shown(pilot))
        await until(pilot, lambda: isinstance(pilot.app.screen, OutcomeScreen))
        assert "COMMITTED" in shown(pilot)
        await pilot.press("q")
        await until(pilot, lambda: desk.view().snapshot.service.profile == "b16-eager")
        assert "b16-eager" in shown(pilot)

        await pilot.press("b", "y")
        await until(pilot, lambda: isinstance(pilot.app.screen, OutcomeScreen))
        assert desk.view().run.outcome.target.profile == "b8-nvls"
        assert desk.view().run.outcome.outcome == "committed"
        await pilot.press("q")
        await until(pilot, lambda: desk.view().snapshot.service.profile == "b8-nvls")


async def test_a_trial_is_aborted_in_two_keys_and_one_not_yet_armed_at_once(host: HostConfig) -> None:
    async with opened(host, write=True) as pilot:
        desk: Desk = pilot.app.desk
        await until(pilot, lambda: desk.view().link_up)
        await plan(pilot, "b16-eager")
        await pilot.press("enter", "y")
        await until(pilot, lambda: bool(desk.view().run.steps))
        await pilot.press("a", "y")
        await until(pilot, lambda: isinstance(pilot.app.screen, OutcomeScreen))
        assert "Stopped before anything was touched" in shown(pilot)
        assert desk.view().snapshot.service.profile == "b8-nvls"

        await pilot.press("q")
        await plan(pilot, "b16-eager")
        await pilot.press("enter", "y")
        await until(pilot, lambda: any(one.progress.phase == "start" for one in desk.view().run.steps))
        await pilot.press("q", "b", "y")
        await until(pilot, lambda: isinstance(pilot.app.screen, OutcomeScreen))
        assert desk.view().run.outcome.outcome == "rolled_back"
        assert "ROLLED BACK" in shown(pilot)
        assert "serves b8-nvls again" in shown(pilot)


async def test_a_lost_link_is_marked_at_once_and_comes_back_by_itself(host: HostConfig, tmp_path: Path) -> None:
    with Gate(host, tmp_path) as gate:
        async with opened(gate.config, write=True) as pilot:
            desk: Desk = pilot.app.desk
            await until(pilot, lambda: len(desk.view().snapshot.gpus) == 8)
            gate.shut()
            began = time.monotonic()
            await until(pilot, lambda: "LINK LOST" in shown(pilot))
            assert time.monotonic() - began < 5
            await until(pilot, lambda: "STALE" in shown(pilot))
            assert "W of 1 100" in shown(pilot)
            assert not {"switch", "roll_back"} & alive(pilot)
            await pilot.press("b")
            assert isinstance(pilot.app.screen, LiveScreen)
            gate.open()
            await pilot.press("r")
            await until(pilot, lambda: "LINK LOST" not in shown(pilot) and "STALE" not in shown(pilot))
            assert {"switch", "roll_back"} <= alive(pilot)


async def test_a_host_that_is_not_there_is_said_in_one_sentence(host: HostConfig) -> None:
    async with opened(replace(host, port=1), write=False) as pilot:
        await until(pilot, lambda: "LINK LOST" in shown(pilot))
        assert "nothing was read yet" in shown(pilot)
        assert "UNKNOWN" in shown(pilot).upper()
