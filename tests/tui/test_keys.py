"""What the keys do, on recorded moments."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, Input

from ddtune.engine.model import LogLine
from ddtune.live.snapshot import Ages, Link
from ddtune.rollout.model import Plan
from ddtune.tui.app import DdtuneApp
from ddtune.tui.screens.dialog import Dialog
from ddtune.tui.screens.help import HelpScreen
from ddtune.tui.screens.history import HistoryScreen
from ddtune.tui.screens.live import LiveScreen
from ddtune.tui.screens.log import LogScreen
from ddtune.tui.screens.outcome import OutcomeScreen
from ddtune.tui.screens.plan import PlanScreen
from ddtune.tui.screens.profiles import ProfilesScreen
from ddtune.tui.screens.progress import ProgressScreen
from tests.tui.fakes import NAME, FakeDesk, moment
from tests.tui.hands import alive, listed, shown, typed, until
from tests.tui.recorded import read

LOST = Link("lost", None, "The connection was lost.")


@asynccontextmanager
async def opened(desk: Any, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[None]]:
    app = DdtuneApp(desk)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield pilot


async def test_read_only_has_no_key_that_changes_anything() -> None:
    async with opened(FakeDesk(moment())) as pilot:
        assert not {"switch", "roll_back"} & listed(pilot)
        await pilot.press("b", "y")
        assert isinstance(pilot.app.screen, LiveScreen)
        assert pilot.app.desk.asked == []
        assert "READ-ONLY" in shown(pilot)
        assert "Roll back" not in shown(pilot)


async def test_the_hosts_name_unlocks() -> None:
    desk = FakeDesk(moment())
    async with opened(desk) as pilot:
        await pilot.press("W")
        await typed(pilot, "b301")
        await pilot.press("enter")
        assert isinstance(pilot.app.screen, Dialog)
        assert not desk.view().writable
        pilot.app.screen.query_one(Input).value = ""
        await typed(pilot, NAME)
        await pilot.press("enter")
        await pilot.pause()
        assert desk.view().writable
        assert {"switch", "roll_back"} <= alive(pilot)
        assert "WRITE 15 min" in shown(pilot)


async def test_two_keys_lead_back() -> None:
    desk = FakeDesk(moment(), write=True)
    async with opened(desk) as pilot:
        await pilot.press("b")
        assert desk.asked == []
        await pilot.press("y")
        await pilot.pause()
        assert desk.asked == ["go_back"]
        assert isinstance(pilot.app.screen, ProgressScreen)


async def test_enter_on_the_focused_answer_of_rolling_back_cancels() -> None:
    desk = FakeDesk(moment(), write=True)
    async with opened(desk) as pilot:
        await pilot.press("b", "enter")
        assert desk.asked == []
        assert isinstance(pilot.app.screen, LiveScreen)


async def test_a_switch_is_planned_then_confirmed_then_watched() -> None:
    desk = FakeDesk(moment(), write=True, plan=read("plan", Plan))
    async with opened(desk) as pilot:
        await pilot.press("s")
        assert isinstance(pilot.app.screen, ProfilesScreen)
        await pilot.press("j", "enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, PlanScreen)
        assert "8 → 16" in shown(pilot)
        await pilot.press("enter")
        assert isinstance(pilot.app.focused, Button)
        assert pilot.app.focused.id == "no"
        await pilot.press("enter")
        assert isinstance(pilot.app.screen, PlanScreen)
        assert [one[0] for one in desk.asked] == ["plan"]
        await pilot.press("enter", "y")
        await pilot.pause()
        assert desk.asked[-1] == ("carry_out", "b16-eager")
        assert isinstance(pilot.app.screen, ProgressScreen)
        assert "nothing happens, the host is untouched" in shown(pilot)
        await pilot.press("q")
        assert isinstance(pilot.app.screen, LiveScreen)


async def test_a_protected_host_wants_its_name() -> None:
    desk = FakeDesk(moment(), write=True, protected=True, plan=read("plan", Plan))
    async with opened(desk) as pilot:
        await pilot.press("P", "enter")
        await pilot.pause()
        await pilot.press("enter", "y", "enter")
        assert isinstance(pilot.app.screen, Dialog)
        assert [one[0] for one in desk.asked] == ["plan"]
        pilot.app.screen.query_one(Input).value = ""
        await typed(pilot, NAME)
        await pilot.press("enter")
        await pilot.pause()
        assert desk.asked[-1] == ("carry_out", "b16-eager")


async def test_a_refused_plan_leads_back_or_to_force() -> None:
    desk = FakeDesk(moment(), write=True, plan=read("refused", Plan))
    async with opened(desk) as pilot:
        await pilot.press("P", "j", "enter")
        await pilot.pause()
        assert "REFUSED: known bad" in shown(pilot)
        assert "go_on" not in listed(pilot)
        await pilot.press("enter")
        assert isinstance(pilot.app.screen, PlanScreen)
        await pilot.press("f")
        await pilot.pause()
        assert desk.asked[-1] == ("plan", "b12", True)
        assert "FORCED" in shown(pilot)
        assert "go_on" in alive(pilot)


async def test_a_plan_may_be_read_but_not_confirmed_when_locked() -> None:
    async with opened(FakeDesk(moment(), plan=read("plan", Plan))) as pilot:
        await pilot.press("P", "enter")
        await pilot.pause()
        assert "8 → 16" in shown(pilot)
        assert "go_on" not in listed(pilot)


async def test_a_lost_link_is_marked_and_takes_the_keys_that_change_something() -> None:
    view = moment()
    desk = FakeDesk(view, write=True)
    async with opened(desk) as pilot:
        desk.move(snapshot=replace(view.snapshot, link=LOST, ages=Ages(7.0, 7.0, 7.0)))
        await pilot.pause()
        assert "LINK LOST" in shown(pilot)
        assert "last values are 7.0 s old" in shown(pilot)
        assert "424" in shown(pilot) or "W of 1 100" in shown(pilot)
        assert not {"switch", "roll_back"} & alive(pilot)
        await pilot.press("b")
        assert isinstance(pilot.app.screen, LiveScreen)
        await pilot.press("r")
        assert desk.retries == 1
        desk.move(snapshot=view.snapshot)
        await pilot.pause()
        assert "LINK LOST" not in shown(pilot)
        assert {"switch", "roll_back"} <= alive(pilot)


async def test_leaving_in_the_middle_of_a_change_is_asked_for() -> None:
    async with opened(FakeDesk(moment("progress"), write=True)) as pilot:
        await pilot.press("q")
        assert isinstance(pilot.app.screen, Dialog)
        assert "goes back to b8-nvls by itself" in " ".join(shown(pilot).replace("│", " ").split())
        await pilot.press("enter")
        assert isinstance(pilot.app.screen, LiveScreen)
        await pilot.press("ctrl+c", "y")
        await pilot.pause()
        assert not pilot.app.is_running


async def test_the_end_of_a_change_is_shown_where_it_was_watched() -> None:
    desk = FakeDesk(moment(), write=True, plan=read("plan", Plan))
    async with opened(desk) as pilot:
        await pilot.press("b", "y")
        await pilot.pause()
        ended = moment("rolled-back").run
        desk.move(run=ended)
        await until(pilot, lambda: isinstance(pilot.app.screen, OutcomeScreen))
        assert "illegal memory access" in shown(pilot)
        await pilot.press("q")
        assert isinstance(pilot.app.screen, LiveScreen)


async def test_remote_text_is_neither_markup_nor_an_escape() -> None:
    view = moment()
    nasty = LogLine(
        view.snapshot.at,
        "[red]alarm[/red] \x1b[31mred\x1b[0m <script>1</script> \x1b]0;title\x07 \x9b2J[bold",
        "unit",
        "TP[b]1",
    )
    service = replace(view.snapshot.service, unit="[b]unit[/b].service", profile="[u]p[/u]\x1b[2J")
    snapshot = replace(view.snapshot, log=(nasty,), service=service, notes=("[link]note",), host="[i]h[/i]")
    async with opened(FakeDesk(replace(view, snapshot=snapshot)), (120, 36)) as pilot:
        text = shown(pilot)
        assert "[red]alarm[/red] red" in text
        assert "TP[b]1" in text
        assert "[b]unit[/b].service" in text
        assert "[u]p[/u]" in text
        assert "\x1b" not in text
        assert "\x9b" not in text
        await pilot.press("l")
        assert "[red]alarm[/red]" in shown(pilot)
        await pilot.press("slash")
        await typed(pilot, "[red")
        await pilot.pause()
        assert "1 of 1 lines with '[red'" in shown(pilot)
        picture = pilot.app.export_screenshot()
        assert "\x1b" not in picture
        assert not [one for one in ElementTree.fromstring(picture).iter() if one.tag.endswith("script")]


async def test_the_log_filters_and_stands_still() -> None:
    view = moment()
    desk = FakeDesk(view)
    async with opened(desk) as pilot:
        await pilot.press("l")
        assert isinstance(pilot.app.screen, LogScreen)
        await pilot.press("k", "k")
        assert "paused" in shown(pilot)
        before = shown(pilot).splitlines()[3:20]
        more = tuple(LogLine(view.snapshot.at + number, f"new {number}") for number in range(3))
        desk.move(snapshot=replace(view.snapshot, log=(*view.snapshot.log, *more)))
        await pilot.pause()
        assert shown(pilot).splitlines()[3:20] == before
        await pilot.press("G")
        assert "new 2" in shown(pilot)
        await pilot.press("slash")
        await typed(pilot, "new 1")
        await pilot.press("enter")
        assert "new 1" in shown(pilot)
        assert "new 2" not in shown(pilot)
        await pilot.press("escape", "escape")
        assert isinstance(pilot.app.screen, LiveScreen)


async def test_pause_freezes_the_panels_and_says_so() -> None:
    view = moment()
    desk = FakeDesk(view)
    async with opened(desk) as pilot:
        await pilot.press("p")
        desk.move(snapshot=replace(view.snapshot, service=replace(view.snapshot.service, queued=777)))
        await pilot.pause()
        assert "PAUSED" in shown(pilot)
        assert "queued 777" not in shown(pilot)
        await pilot.press("p")
        assert "queued 777" in shown(pilot)


async def test_help_history_palette_theme_and_screenshot(tmp_path) -> None:
    async with opened(FakeDesk(moment("rolled-back"), write=True), (120, 36)) as pilot:
        await pilot.press("question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        assert "Roll back: b, then y" in shown(pilot)
        await pilot.press("q", "H")
        assert isinstance(pilot.app.screen, HistoryScreen)
        assert "illegal memory access" in shown(pilot)
        await pilot.press("q", "t")
        assert pilot.app.theme == "ddtune-light"
        await pilot.press("S")
        await pilot.pause()
        assert list(tmp_path.glob("ddtune-b300-*.svg"))
        await pilot.press("T")
        await pilot.pause()
        (saved,) = tmp_path.glob("ddtune-b300-*.txt")
        assert "J/token" in saved.read_text()
        assert not {"\x1b", "\r"} & set(saved.read_text())
        await pilot.press("colon")
        await pilot.pause()
        commands = {one.title for one in pilot.app.get_system_commands(pilot.app.screen_stack[0])}
        assert {"Switch", "Roll back", "History", "Theme"} <= commands


async def test_the_palette_holds_no_change_when_locked() -> None:
    async with opened(FakeDesk(moment())) as pilot:
        commands = {one.title for one in pilot.app.get_system_commands(pilot.app.screen)}
        assert "Unlock" in commands
        assert not {"Switch", "Roll back"} & commands


async def test_maximise_keeps_the_line_on_top() -> None:
    async with opened(FakeDesk(moment())) as pilot:
        for keys, back in ((("7", "m"), "m"), (("4",), "escape")):
            await pilot.press(*keys)
            await pilot.pause()
            assert "READ-ONLY" in shown(pilot)
            assert "W of 1 100" not in shown(pilot)
            await pilot.press(back)
            await pilot.pause()
            assert "W of 1 100" in shown(pilot)


async def test_a_chart_without_room_is_shown_alone_and_its_time_is_chosen() -> None:
    async with opened(FakeDesk(moment())) as pilot:
        await pilot.press("5")
        await pilot.pause()
        assert "5 Accept" in shown(pilot)
        assert "4.48" in shown(pilot)
        for key, span in (("plus", "15 min"), ("plus", "60 min"), ("plus", "60 min"), ("minus", "15 min")):
            await pilot.press(key)
            await pilot.pause()
            assert span in shown(pilot)


@pytest.mark.parametrize("size", [(80, 24), (60, 15), (59, 15), (20, 5), (1, 1), (250, 80)])
@pytest.mark.parametrize("name", ["progress", "rolled-back"])
async def test_every_size_is_survived(size: tuple[int, int], name: str) -> None:
    async with opened(FakeDesk(moment(name), write=True, plan=read("plan", Plan)), size) as pilot:
        for key in ("l", "H", "P", "o"):
            await pilot.press(key)
            assert shown(pilot)
            await pilot.press("q" if key != "l" else "escape")
        if size[0] in range(20, 60):
            assert "needs 60×15" in shown(pilot)


async def test_a_storm_of_sizes_and_moments_is_survived() -> None:
    desk = FakeDesk(moment("progress"), write=True)
    sizes = random.Random(7)
    async with opened(desk) as pilot:
        for number in range(40):
            await pilot.resize_terminal(sizes.randint(1, 200), sizes.randint(1, 60))
            desk.move(now=desk.view().now + 1)
            if number % 10 == 5:
                await pilot.press("o" if number % 20 == 5 else "q")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "b300" in shown(pilot)


async def test_moments_are_coalesced_while_the_screen_stalls() -> None:
    desk = FakeDesk(moment())
    async with opened(desk) as pilot:
        app, handled = pilot.app, 0
        before = app._frames._paint

        def counted() -> None:
            nonlocal handled
            handled += 1
            before()

        app._frames._paint = counted
        await asyncio.to_thread(lambda: [desk.move(now=float(number)) for number in range(500)])
        await pilot.pause()
        assert 0 < handled < 500
        assert desk.view().now == 499.0
