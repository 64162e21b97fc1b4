"""Faults from the field that reach a terminal, by their ids (docs/field-cases.md)."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from ddtune.config import crash
from ddtune.engine.model import LogLine
from ddtune.rollout.model import Plan
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


async def test_keys_are_bound_by_their_ids() -> None:
    desk = FakeDesk(moment(), write=True)
    app = DdtuneApp(desk, Look(keys={"roll-back": "f9"}))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("b")
        assert isinstance(app.screen, LiveScreen)
        assert "f9" in shown(pilot)
        await pilot.press("f9")
        assert not isinstance(app.screen, LiveScreen)
