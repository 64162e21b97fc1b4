"""A history as signs: braille lines over a fixed range, with levels and marks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from ddtune.live.series import Mark, Window
from ddtune.tui import words

GUTTER = 6
# The later ones lie on top where two share a column.
MARKS = {"restart": ("▲", words.WARN), "switch": ("◆", words.NOTE), "incident": ("✗", words.BAD)}
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_WHOLE = (0x47, 0xB8)
_BLANK = 0x2800
_EMPTY = (" ", "")


@dataclass(frozen=True)
class Trace:
    """One line. ``values`` has one for each bucket of the window, None for a gap; ``filled`` down to the lowest row."""

    values: Sequence[float | None]
    style: str
    filled: bool = False
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None


@dataclass(frozen=True)
class Level:
    """A value to compare with, drawn where nothing else is."""

    value: float
    style: str = words.MUTED


@dataclass(frozen=True)
class Plot:
    """What a chart shows. ``top`` is the value at the upper edge, 0 the one at the lower. Later traces lie on top."""

    top: float
    traces: tuple[Trace, ...]
    level: Level | None = None
    now: str = ""
    digits: int = 0


Cell = tuple[str, str]


def lines(plot: Plot, window: Window, width: int, height: int) -> list[Content]:
    """The plot in ``height`` lines of ``width`` cells, the last one being the time axis."""
    columns, rows = width - GUTTER, height - 1
    if columns < 4 or rows < 1:
        return []
    cells = [[_EMPTY] * columns for _ in range(rows)]
    _draw_level(cells, plot)
    _draw_marks(cells, window)
    for trace in plot.traces:
        _draw_trace(cells, trace, window, plot.top)
    drawn = [_line(_label(plot, row, rows), cells[row]) for row in range(rows)]
    return [*drawn, _axis(plot, window, columns)]


def trend(values: Sequence[float | None], window: Window, top: float, columns: int) -> str:
    """One line of braille, for where there is no room for a chart."""
    cells = [[_EMPTY] * columns]
    _draw_trace(cells, Trace(values, ""), window, top)
    return "".join(sign for sign, _ in cells[0])


def ceiling(values: Sequence[float | None], least: float) -> float:
    """A round upper edge for values that have none of their own: 1, 2, 2.5 or 5 times a power of ten."""
    most = max(filter(None, values), default=0.0)
    most = max(most * 1.08, least)
    power = 1.0
    while power * 10 <= most:
        power *= 10
    return next((power * step for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8) if power * step >= most), power * 10)


def columns_of(window: Window, dots: int) -> list[tuple[int, int]]:
    """Which buckets each of ``dots`` columns stands for, as a half-open range.

    Buckets are joined by their number since the epoch, so that a column keeps its values while it moves to the left.
    """
    joined = max(1, -(-window.count // dots))
    first = round(window.start / window.step_s)
    last = first + window.count - 1
    groups = last // joined - first // joined + 1
    ranges = []
    for dot in range(dots):
        group = first // joined + dot * groups // dots
        ranges.append((max(0, group * joined - first), min(window.count, (group + 1) * joined - first)))
    return ranges


def _draw_trace(cells: list[list[Cell]], trace: Trace, window: Window, top: float) -> None:
    rows, columns = len(cells), len(cells[0])
    steps = 4 * rows - 1
    dots: dict[tuple[int, int], int] = {}
    before: tuple[int, int] | None = None
    last = None
    for dot, span in enumerate(columns_of(window, 2 * columns)):
        if span != last:
            found = _value(trace, span)
            last = span
        if found is None:
            before = None
            continue
        mean, low, high = (min(steps, max(0, round(value / top * steps))) for value in found)
        lower, upper = min(low, mean), max(high, mean)
        if before is not None:
            # A line has no holes where it is steep.
            lower = min(lower, before[1] + 1)
            upper = max(upper, before[0] - 1)
        before = (min(low, mean), max(high, mean))
        column, side = divmod(dot, 2)
        if trace.filled:
            for row in range((steps - lower) // 4 + 1, rows):
                dots[row, column] = dots.get((row, column), 0) | _WHOLE[side]
            lower -= 3 - (steps - lower) % 4
        for step in range(lower, upper + 1):
            row, part = divmod(steps - step, 4)
            dots[row, column] = dots.get((row, column), 0) | _DOTS[side][part]
    for (row, column), pattern in dots.items():
        sign, style = cells[row][column]
        below = ord(sign) - _BLANK if _BLANK < ord(sign) < _BLANK + 256 else 0
        cells[row][column] = (chr(_BLANK + (pattern | below)), style if below and not pattern & ~below else trace.style)


def _value(trace: Trace, span: tuple[int, int]) -> tuple[float, float, float] | None:
    """Mean, lowest and highest of a range of buckets."""
    first, end = span
    known = [value for value in trace.values[first:end] if value is not None]
    if not known:
        return None
    mean = sum(known) / len(known)
    low = min((one for one in trace.low[first:end] if one is not None), default=mean) if trace.low else mean
    high = max((one for one in trace.high[first:end] if one is not None), default=mean) if trace.high else mean
    return mean, low, high


def _draw_level(cells: list[list[Cell]], plot: Plot) -> None:
    if plot.level is None or not 0 <= plot.level.value <= plot.top:
        return
    columns = len(cells[0])
    row = _level_row(plot, len(cells))
    cells[row] = [("┄", plot.level.style)] * columns


def _draw_marks(cells: list[list[Cell]], window: Window) -> None:
    for mark in _by_weight(window):
        column = _column(mark, window, len(cells[0]))
        if column is not None:
            for row in cells:
                row[column] = ("┊", MARKS[mark.kind][1])


def _by_weight(window: Window) -> list[Mark]:
    return sorted(window.marks, key=lambda mark: list(MARKS).index(mark.kind))


def _column(mark: Mark, window: Window, columns: int) -> int | None:
    share = (mark.at - window.start) / (window.step_s * window.count)
    return min(columns - 1, int(share * columns)) if 0 <= share <= 1 else None


def _level_row(plot: Plot, rows: int) -> int:
    return min(rows - 1, int((1 - plot.level.value / plot.top) * rows)) if plot.level else -1


def _label(plot: Plot, row: int, rows: int) -> Content:
    value = None
    level = _level_row(plot, rows)
    if plot.level and row == level:
        return words.line((f"{words.short(plot.level.value, plot.digits):>{GUTTER - 1}} ", words.MUTED))
    if row == 0:
        value = plot.top
    elif row == rows - 1:
        value = 0.0
    elif rows >= 7 and row == rows // 2 and abs(row - level) > 1:
        value = plot.top * (1 - (row + 0.5) / rows)
    text = "" if value is None else words.short(value, plot.digits if value else 0)
    return words.line((f"{text:>{GUTTER - 1}} ", words.MUTED))


def _line(label: Content, cells: Sequence[Cell]) -> Content:
    """Neighbours of one style become one part."""
    parts: list[words.Part] = [label]
    text, style = "", ""
    for sign, own in cells:
        if own != style and text:
            parts.append((text, style))
            text = ""
        style = own
        text += sign
    parts.append((text, style))
    return words.line(*parts)


def _axis(plot: Plot, window: Window, columns: int) -> Content:
    now = f" now {plot.now}" if plot.now else " now"
    now = now if len(now) < columns - len(" 60 min ") else f" {plot.now}"
    free = max(0, columns - len(now))
    span = f"{window.length_s // 60} min"
    span = f"{span} ago" if free > len(span) + 8 else span
    cells: list[Cell] = [(sign, words.MUTED) for sign in f"{span} ".ljust(free, "┈")[:free]]
    for mark in _by_weight(window):
        column = _column(mark, window, columns)
        if column is not None and len(span) < column < free:
            cells[column] = MARKS[mark.kind]
    cells += [(sign, "bold") for sign in now]
    return _line(words.line(" " * GUTTER), cells)
