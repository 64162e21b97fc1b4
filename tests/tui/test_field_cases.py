"""Faults from the field that reach a terminal, by their ids (docs/field-cases.md)."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from textual.color import Color
from textual.theme import Theme

from ddtune.config import crash
from ddtune.engine.model import LogLine
from ddtune.live.snapshot import Link
from ddtune.rollout.model import Plan
from ddtune.tui import themes
from ddtune.tui.app import DdtuneApp
from ddtune.tui.look import Look
from ddtune.tui.screens.live import LiveScreen
from ddtune.tui.terminal import Typed
from tests.tui.fakes import FakeDesk, moment
from tests.tui.hands import shown
from tests.tui.recorded import read


@pytest.mark.parametrize("report", [b"\x1b[M\x20\x82\x21", b"\x1b[M yb", b"\x1b[M#\xff\xff"])
def test_k7_01_a_mouse_report_is_neither_a_fault_nor_a_key(report: bytes) -> None:
    assert Typed().feed(b"a" + report + b"b") == "ab"
    for cut in range(2, len(report)):
        typed = Typed()
        assert typed.feed(report[:cut]) + typed.feed(report[cut:] + b"b") == "b"


def test_k7_01_any_byte_is_survived_and_text_stays_whole() -> None:
    dice = random.Random(1)
    typed = Typed()
    for _ in range(200):
        typed.feed(dice.randbytes(dice.randint(1, 40)))
    typed = Typed()
    assert typed.feed("é".encode()[:1]) + typed.feed("é".encode()[1:]) == "é"
    assert typed.feed(b"\x1b") == "\x1b"


def test_k7_03_a_crash_is_in_a_file_whose_path_is_shown() -> None:
    secret = "a value of a variable"
    try:
        raise ZeroDivisionError
    except ZeroDivisionError as error:
        path = crash.noted(error)
    text = Path(path).read_text()
    assert "ZeroDivisionError" in text
    assert secret not in text


async def test_k7_04_how_to_select_text_is_said() -> None:
    app = DdtuneApp(FakeDesk(moment()))
    async with app.run_test(size=(120, 50)) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        assert "holding Shift" in shown(pilot)
        assert "--no-mouse" in shown(pilot)


def _contrast(one: Color, other: Color) -> float:
    """The ratio of WCAG 2.1, section 1.4.3."""

    def luminance(color: Color) -> float:
        parts = (part / 255 for part in (color.r, color.g, color.b))
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [themes.DARK, themes.LIGHT], ids=lambda one: one.name)
def test_k7_06_every_colour_of_text_is_read_on_its_ground(theme: Theme) -> None:
    colours = {name: getattr(theme, name) for name in ("success", "warning", "error", "accent", "foreground")}
    colours["muted"] = theme.variables["muted"]
    for name, text in colours.items():
        for ground in (theme.background, theme.surface, theme.panel):
            assert _contrast(Color.parse(text), Color.parse(ground)) >= 4.5, (name, ground)
    for kind in ("loud", "busy"):
        text, ground = theme.variables[f"{kind}-foreground"], theme.variables[kind]
        assert _contrast(Color.parse(text), Color.parse(ground)) >= 4.5, kind


async def test_states_are_read_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    for name, words in (
        ("rolled-back", ("READ-ONLY", "SERVING", "↩ rolled back")),
        ("rollback-failed", ("ROLLBACK FAILED",)),
        ("host-action", ("HOST ACTION REQUIRED",)),
    ):
        app = DdtuneApp(FakeDesk(moment(name)))
        async with app.run_test(size=(160, 48)) as pilot:
            await pilot.pause()
            assert all(word in shown(pilot) for word in words)
            strips = app.screen._compositor.render_strips()
            colours = {part.style.color for strip in strips for part in strip if part.style and part.style.color}
            assert colours
            for colour in colours:
                red, green, blue = colour.get_truecolor()
                assert red == green == blue, colour


@pytest.mark.parametrize("size", [(80, 24), (60, 15), (20, 5)])
async def test_k7_07_a_small_window_says_so(size: tuple[int, int]) -> None:
    app = DdtuneApp(FakeDesk(moment(), write=True, plan=read("plan", Plan)))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        text = shown(pilot)
        if size == (20, 5):
            assert "needs 60×15" in text
        else:
            assert "SERVING" in text
        if size == (80, 24):
            assert sum(line[:3].strip().isdigit() and "█" in line for line in text.splitlines()) == 8
        dice = random.Random(7)
        for _ in range(30):
            await pilot.resize_terminal(dice.randint(1, 200), dice.randint(1, 60))
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "SERVING" in shown(pilot)
        assert isinstance(app.screen, LiveScreen)


@pytest.mark.parametrize(
    "text", ["\x1b[2J\x1b]0;x\x07[red]text[/red]", "[/] [TP0] \x9b2J[/red]", "[@click=app.quit]x[/]"]
)
async def test_k7_09_remote_text_is_inert(text: str) -> None:
    view = moment()
    line = LogLine(view.snapshot.at, text, "unit", "TP0", severity="error")
    snapshot = replace(view.snapshot, log=(line,), notes=(text,))
    app = DdtuneApp(FakeDesk(replace(view, snapshot=snapshot)))
    async with app.run_test(size=(160, 48)) as pilot:
        await pilot.press("l")
        await pilot.pause()
        seen = shown(pilot)
        assert "\x1b" not in seen
        assert "\x9b" not in seen
        assert text.replace("\x1b[2J", "").replace("\x1b]0;x\x07", "").replace("\x9b2J", "").split()[-1] in seen


async def test_ascii_draws_every_sign_in_ascii() -> None:
    app = DdtuneApp(FakeDesk(moment("rolled-back"), write=True), Look(ascii=True))
    async with app.run_test(size=(160, 48)) as pilot:
        for key in ("1", "o", "q", "l", "escape", "H", "q", "question_mark"):
            await pilot.press(key)
            await pilot.pause()
            drawn = shown(pilot)
            assert len(drawn) > 1000
            assert drawn.isascii(), sorted({sign for sign in drawn if not sign.isascii()})


@pytest.mark.parametrize("theme", themes.NAMES)
async def test_the_configuration_says_which_colours_it_begins_with(theme: str) -> None:
    async with DdtuneApp(FakeDesk(moment()), Look(theme=theme)).run_test(size=(80, 24)) as pilot:
        assert pilot.app.theme == themes.NAMES[theme]


async def test_keys_are_bound_by_their_ids() -> None:
    desk = FakeDesk(moment(), write=True)
    app = DdtuneApp(desk, Look(keys={"roll-back": "f9"}))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("b")
        assert isinstance(app.screen, LiveScreen)
        assert "f9" in shown(pilot)
        await pilot.press("f9")
        assert not isinstance(app.screen, LiveScreen)


async def test_a_yes_that_meets_a_lost_link_is_not_kept_for_it() -> None:
    view = moment()
    desk = FakeDesk(view, write=True)
    app = DdtuneApp(desk)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("b")
        desk.move(snapshot=replace(view.snapshot, link=Link("lost", None, "The connection was lost.")))
        await pilot.press("y")
        await pilot.pause()
        assert desk.asked == []
        assert "Not while the host cannot be reached" in shown(pilot)
        desk.move(snapshot=view.snapshot)
        await pilot.pause()
        assert desk.asked == []
        await pilot.press("y")
        await pilot.pause()
        assert desk.asked == ["go_back"]
