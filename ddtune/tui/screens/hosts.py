"""Several hosts, one line each; each has a thread of its own, so that a dead one slows no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Footer

from ddtune.tui import paint_gpus, paint_hosts
from ddtune.tui.desk import Desk
from ddtune.tui.screens.base import DeskScreen, SubScreen
from ddtune.tui.screens.live import LiveScreen
from ddtune.tui.view import View
from ddtune.tui.widgets.charts import Charts
from ddtune.tui.widgets.history_chart import HistoryChart
from ddtune.tui.widgets.panel import Panel

MOST_LINES = 14


class HostsScreen(DeskScreen):
    """Where every host can be seen and one be opened."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="open-host", tooltip="The chosen host's own screen"),
        Binding("j,down", "move(1)", "Next host", id="next-host", show=False),
        Binding("k,up", "move(-1)", "Previous host", id="previous-host", show=False),
        *(Binding(str(number), f"open_number({number})", "", show=False) for number in range(1, 10)),
    ]

    def __init__(self, desks: Sequence[Desk]) -> None:
        super().__init__(desks[0])
        self._desks = desks
        self._chosen = 0

    def compose(self) -> ComposeResult:
        yield Panel(self._lines, "Hosts", id="hosts")
        yield Panel(paint_gpus.rows, id="host-gpus", focusable=False)
        yield Charts()
        yield Panel(_detail, id="host-detail", focusable=False)
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """A line for each host, and three more."""
        self.query_one("#hosts").styles.height = min(MOST_LINES, len(self._desks) + 4)
        for chart in self.query(HistoryChart):
            chart.can_focus = False
        super().on_mount()

    def refresh_view(self) -> None:
        """Take the newest moment of each host."""
        if not self._whole or not self.is_attached:
            return
        self.view = self._desks[self._chosen].view()
        for panel in self.query(Panel):
            if panel.is_on_screen:
                panel.show(self.view)

    def action_move(self, step: int) -> None:
        """Choose the host above or below."""
        self._chosen = max(0, min(len(self._desks) - 1, self._chosen + step))
        self.refresh_view()

    def action_open(self) -> None:
        """Open the chosen host."""
        self.post_message(HostLive.Wanted(self._desks[self._chosen]))

    def action_open_number(self, number: int) -> None:
        """Open a host by its place."""
        if number <= len(self._desks):
            self._chosen = number - 1
            self.action_open()

    def _lines(self, view: View, width: int, height: int) -> list[Content]:
        del view
        return paint_hosts.lines([desk.view() for desk in self._desks], self._chosen, width, height)


def _detail(view: View, width: int, height: int) -> list[Content]:
    return paint_hosts.detail(view, width)[:height]


class HostLive(LiveScreen):
    """One of several hosts: q leads back to all."""

    BINDINGS: ClassVar[list[BindingType]] = [*SubScreen.BINDINGS]

    class Wanted(Message):
        """A host is to be opened."""

        def __init__(self, desk: Desk) -> None:
            super().__init__()
            self.desk = desk
