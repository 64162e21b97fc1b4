"""A history as signs."""

from __future__ import annotations

import pytest

from ddtune.live.series import Mark, Window
from ddtune.tui import plot
from ddtune.tui.plot import GUTTER, Level, Plot, Trace

START = 1_800_000_000.0


def window(count: int, *marks: Mark) -> Window:
    return Window(START, 1.0, count, count, marks=marks)


def rows(shown: Plot, over: Window, width: int, height: int) -> list[str]:
    return [line.plain for line in plot.lines(shown, over, width, height)]


def dots(text: str) -> int:
    return sum((ord(sign) - 0x2800).bit_count() for sign in text if 0x2800 < ord(sign) < 0x2900)


@pytest.mark.parametrize("size", [(30, 6), (12, 3), (120, 40)])
def test_every_line_keeps_its_width_and_the_height_is_used(size: tuple[int, int]) -> None:
    values = [float(number % 50) for number in range(300)]
    found = rows(Plot(50.0, (Trace(values, "a"),), Level(25.0), "now"), window(300), *size)
    assert len(found) == size[1]
    assert all(len(line) <= size[0] for line in found)


def test_a_constant_lies_in_one_row_and_a_fill_reaches_the_ground() -> None:
    values = [50.0] * 40
    line = rows(Plot(100.0, (Trace(values, ""),)), window(40), GUTTER + 20, 11)
    assert [dots(row) for row in line].count(40) == 1
    assert sum(dots(row) for row in line) == 40
    filled = rows(Plot(100.0, (Trace(values, "", filled=True),)), window(40), GUTTER + 20, 11)
    assert dots(filled[9]) == 20 * 8
    assert sum(dots(row) for row in filled) == 40 * (round(0.5 * 39) + 1)


def test_a_gap_stays_a_gap_and_a_step_has_no_hole() -> None:
    values = [10.0] * 10 + [None] * 10 + [90.0] * 10 + [10.0] * 10
    found = rows(Plot(100.0, (Trace(values, ""),)), window(40), GUTTER + 20, 11)
    columns = ["".join(row[GUTTER:].ljust(20)[column] for row in found[:10]) for column in range(20)]
    assert all(not dots(column) for column in columns[5:10])
    assert all(dots(column) for column in (*columns[:5], *columns[10:]))
    assert dots(columns[15]) > 25


def test_values_beyond_the_range_stay_at_its_edge() -> None:
    found = rows(Plot(100.0, (Trace([500.0] * 40, ""),)), window(40), GUTTER + 20, 6)
    assert dots(found[0]) == 40


def test_a_level_is_drawn_where_nothing_else_is_and_named_beside() -> None:
    found = rows(Plot(6.0, (Trace([None] * 20 + [3.0] * 20, ""),), Level(4.48), digits=2), window(40), GUTTER + 20, 11)
    (row,) = (line for line in found if "┄" in line)
    assert row.startswith(" 4.48 ")
    assert found[0].split() == ["6.00"]


def test_marks_stand_on_the_axis_where_they_happened() -> None:
    marks = (
        Mark(START + 10, "restart"),
        Mark(START + 20, "switch"),
        Mark(START + 5, "incident"),
        Mark(START - 5, "switch"),
    )
    found = rows(Plot(1.0, ()), window(40, *marks), GUTTER + 80, 5)
    axis = found[-1][GUTTER:]
    assert (axis[20], axis[40], axis[10]) == ("▲", "◆", "✗")
    assert axis.count("◆") == 1
    assert all(row[GUTTER + 20] == "┊" for row in found[:-1])
    both = (Mark(START + 30, "switch"), Mark(START + 30.2, "restart"))
    assert "◆" in rows(Plot(1.0, ()), window(40, *both), GUTTER + 80, 5)[-1]


def test_a_column_keeps_its_value_while_it_moves() -> None:
    """Buckets are joined by their number, not by their place in the window."""
    first = plot.columns_of(Window(START, 1.0, 300, 300), 60)
    later = plot.columns_of(Window(START + 5, 1.0, 300, 300), 60)
    assert [(a - 5, b - 5) for a, b in first[2:40]] == later[1:39]


@pytest.mark.parametrize(
    ("most", "top"), [(0.0, 100.0), (95.0, 150.0), (303.0, 400.0), (4723.0, 6000.0), (9900.0, 15000.0)]
)
def test_an_edge_is_round_and_above(most: float, top: float) -> None:
    assert plot.ceiling([most, None], 100.0) == top


def test_a_trend_is_one_line() -> None:
    assert len(plot.trend([1.0] * 300, window(300), 2.0, 24)) == 24
    assert plot.trend([None] * 300, window(300), 2.0, 24).strip() == ""
