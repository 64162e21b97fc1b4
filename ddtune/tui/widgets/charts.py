"""The four charts in a row, or where there is no room for them one line."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container

from ddtune.tui import paint_charts
from ddtune.tui.widgets.history_chart import HistoryChart


class Charts(Container):
    """Which of them are seen is the style sheet's."""

    def __init__(self) -> None:
        super().__init__(id="charts")

    def compose(self) -> ComposeResult:
        yield HistoryChart(paint_charts.power, "3 Power, W  ┄ limit", id="power")
        yield HistoryChart(paint_charts.tokens, "4 Tokens/s", id="tokens")
        yield HistoryChart(paint_charts.accept, "5 Accept  ┄ expected", id="accept")
        yield HistoryChart(paint_charts.running, "6 Running, queued", id="running")
        yield HistoryChart(paint_charts.trends, id="trends", focusable=False)
