"""The log screen: filters, folds, gaps, and a journal that may not be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddtune.engine import traces
from ddtune.engine.model import LogLine
from ddtune.tui import paint_log
from ddtune.tui.app import DdtuneApp
from ddtune.tui.screens.live import LiveScreen
from tests.tui.fakes import FakeDesk, moment
from tests.tui.hands import shown, typed, until

LOG = (
    LogLine(1.0, "all is well", rank="TP0"),
    LogLine(2.0, "RuntimeError: boom", rank="TP3", kind="error", severity="error", folded=34),
    LogLine(3.0, "some lines of the unit journal were left out here: too slow", kind="gap", severity="warning"),
    LogLine(4.0, "slow request", severity="warning", count=120),
    LogLine(5.0, "server_args=" + "x" * 3000),
    LogLine(6.0, "NVRM: Xid (PCI:0000:17:00): 31", source="kernel", severity="error"),
)


def opened(**fields: Any) -> DdtuneApp:
    view = moment()
    return DdtuneApp(FakeDesk(replace(view, snapshot=replace(view.snapshot, log=LOG, **fields))))


async def test_what_a_line_stands_for_is_said() -> None:
    async with opened().run_test(size=(120, 36)) as pilot:
        await pilot.press("l")
        await pilot.pause()
        text = shown(pilot)
        assert "TP3 RuntimeError: boom (+34 lines of trace)" in text
        assert "slow request ×120" in text
        assert "┄┄ some lines of the unit journal were left out here: too slow ┄┄" in text
        assert "kernel NVRM: Xid" in text
        assert "x" * 90 in text
        assert text.count("x" * 50) == 1
        await pilot.press("w")
        await pilot.pause()
        assert shown(pilot).count("x" * 50) > 20


async def test_severity_steps_and_a_gap_stays_marked() -> None:
    async with opened().run_test(size=(120, 36)) as pilot:
        await pilot.press("l", "e")
        await pilot.pause()
        assert "warnings only" in shown(pilot)
        assert "all is well" not in shown(pilot)
        assert "slow request" in shown(pilot)
        await pilot.press("e")
        await pilot.pause()
        assert "slow request" not in shown(pilot)
        assert "boom" in shown(pilot)
        assert "left out here" in shown(pilot)
        await pilot.press("e", "slash")
        await typed(pilot, "TP0")
        await pilot.pause()
        assert "boom" not in shown(pilot)
        await pilot.press("escape", "escape")
        assert isinstance(pilot.app.screen, LiveScreen)


async def test_a_journal_that_may_not_be_read_is_said() -> None:
    async with opened(unreadable=("kernel", "unit")).run_test(size=(120, 36)) as pilot:
        await pilot.press("l")
        await pilot.pause()
        assert "no permission to read the unit journal" in shown(pilot)
        assert "no permission to read the kernel journal" in shown(pilot)


@pytest.mark.parametrize(
    "growing",
    [
        [LogLine(100.0 + n, f"  File 'a.py', line {n}", kind="traceback", pid=7) for n in range(6)],
        [LogLine(100.0 + n, f"slow request {n}") for n in range(12)],
    ],
    ids=["trace", "flood"],
)
async def test_a_paused_log_stands_still_while_its_last_entry_grows(growing: list[LogLine]) -> None:
    before = [LogLine(float(n), f"line {chr(65 + n % 26)}{chr(65 + n // 26)} was here") for n in range(80)]
    opening = LogLine(99.0, "Traceback (most recent call last):", kind="traceback", pid=7)
    log: tuple[LogLine, ...] = (*before, opening)
    for line in growing[:5]:
        log = traces.appended(log, line, 500)
    view = moment()
    desk = FakeDesk(replace(view, snapshot=replace(view.snapshot, log=log)))
    async with DdtuneApp(desk).run_test(size=(120, 36)) as pilot:
        await pilot.press("l", "p")
        await pilot.pause()
        assert "paused" in shown(pilot)
        seen = before[-10].text
        assert seen in shown(pilot)
        for line in (*growing[5:], LogLine(200.0, "and on it goes")):
            log = traces.appended(log, line, 500)
        desk.move(snapshot=replace(view.snapshot, log=log))
        await until(pilot, lambda: f" {len(log)} lines" in shown(pilot))
        assert seen in shown(pilot)
        assert before[0].text not in shown(pilot)
        assert "and on it goes" not in shown(pilot)


def test_lines_fit_whatever_their_width() -> None:
    for width in (10, 40, 80, 200):
        for whole in (False, True):
            rows = paint_log.lines(LOG, width, 12, whole=whole)
            assert len(rows) <= 12
            assert all(row.cell_length <= width for row in rows), width
