"""The live screen: is it serving, is it right, what does it make, what does it draw, what changed."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content

from ddtune.live.series import WINDOWS_S
from ddtune.tui import paint_events, paint_gpus, paint_log, paint_service, words
from ddtune.tui.desk import Desk
from ddtune.tui.screens.base import DeskScreen, panels
from ddtune.tui.view import View
from ddtune.tui.widgets.charts import Charts
from ddtune.tui.widgets.history_chart import HistoryChart
from ddtune.tui.widgets.panel import Panel
from ddtune.tui.widgets.top import Top

OPENS = {"log": "app.log", "events": "app.history"}
PANELS = 8


class LiveScreen(DeskScreen):
    """Everything at one glance."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "Pause", id="pause", show=False, tooltip="Freeze what is shown; reading goes on"),
        Binding("m", "maximise", "Maximise", id="maximise", show=False, tooltip="The focused panel alone, and back"),
        Binding("enter", "open_panel", "Details", id="details", show=False, tooltip="The focused panel in full"),
        Binding("slash", "filter", "Filter", id="filter-log", show=False, tooltip="The log, filtered", key_display="/"),
        Binding(
            "plus,equals_sign", "window(1)", "Longer", id="longer", show=False, tooltip="Charts of 1 to 60 minutes"
        ),
        Binding("minus", "window(-1)", "Shorter", id="shorter", show=False, tooltip="Charts: 60 to 1 min"),
        Binding("escape", "smaller", "All panels", id="all-panels", show=False),
        Binding("j,down", "app.focus_next", "Next panel", id="next-panel", show=False),
        Binding("k,up", "app.focus_previous", "Previous panel", id="previous-panel", show=False),
        Binding("1", "panel(1)", "Panel 1", id="panel", show=False, tooltip="Focus a panel by its number, 1 to 8"),
        *(Binding(str(number), f"panel({number})", "", show=False) for number in range(2, PANELS + 1)),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._frozen: View | None = None

    def body(self) -> ComposeResult:
        with Container(id="upper"):
            yield Panel(paint_gpus.rows, "1 GPUs", id="gpus")
            yield Panel(paint_service.lines, "2 Service", id="service")
        yield Charts()
        with Container(id="lower"):
            yield Panel(_log, "7 Log", id="log")
            yield Panel(paint_events.lines, "8 Events", id="events")

    def show(self, view: View) -> None:
        """Paint the panels that are seen; a frozen screen keeps its moment and says so on top."""
        if self._frozen is not None:
            self.query_one(Top).show(replace(view, paused=True))
            view = self._frozen
        for panel in self.query("Container > Panel").results(Panel):
            if panel.is_on_screen:
                panel.show(view)

    def action_pause(self) -> None:
        """Freeze the panels, or let them go on."""
        self._frozen = self.view if self._frozen is None else None
        self.refresh_view()

    def action_maximise(self) -> None:
        """Show the focused panel alone, or all again."""
        if self.has_class("-alone"):
            self._together()
        elif isinstance(self.focused, Panel):
            self._alone(self.focused)

    def _alone(self, panel: Panel) -> None:
        self.add_class("-alone")
        for one in self.query("Container, Container > Panel"):
            chosen = one in (panel, panel.parent)
            one.set_class(chosen, "-chosen")
            one.set_class(not chosen, "-aside")
        panel.focus()
        self.call_after_refresh(self.refresh_view)

    async def action_smaller(self) -> None:
        """Show all panels; where they are, back."""
        if self.has_class("-alone"):
            self._together()
        else:
            await self.run_action("app.back_only")

    def _together(self) -> None:
        self.remove_class("-alone")
        self.query("Container, Container > Panel").remove_class("-chosen", "-aside")
        self.call_after_refresh(self.refresh_view)

    async def action_open_panel(self) -> None:
        """Open what the focused panel is a part of."""
        focused = self.focused.id if self.focused is not None else None
        if focused in OPENS:
            await self.run_action(OPENS[focused])
        else:
            self.action_maximise()

    async def action_filter(self) -> None:
        """The log with its filter open."""
        await self.run_action("app.log")
        await self.app.screen.run_action("filter")

    def action_panel(self, number: int) -> None:
        """Focus a panel by its number; one that has no room beside the others is shown alone."""
        panel = panels(self)[number - 1]
        if self.has_class("-alone") or not panel.is_on_screen:
            self._alone(panel)
        else:
            panel.focus()

    def action_window(self, step: int) -> None:
        """Charts of a longer or a shorter time."""
        for chart in self.query(HistoryChart):
            place = WINDOWS_S.index(chart.length_s) + step
            chart.zoom(WINDOWS_S[min(len(WINDOWS_S) - 1, max(0, place))])


def _log(view: View, width: int, height: int) -> list[Content]:
    found = paint_log.lines(paint_log.telling(view.snapshot.log), width, height)
    if found:
        return found
    why = view.snapshot.notes or ("no line was read yet",)
    return [row for one in why for row in words.folded("", words.safe(one), width - 1, words.MUTED, 1)]
