"""The live screen: is it serving, is it right, what does it make, what does it draw, what changed."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content

from ddtune.tui import paint_events, paint_gpus, paint_log, paint_service
from ddtune.tui.desk import Desk
from ddtune.tui.screens.base import DeskScreen, panels
from ddtune.tui.view import View
from ddtune.tui.widgets.panel import Panel
from ddtune.tui.widgets.top import Top

OPENS = {"log": "app.log", "events": "app.history"}


class LiveScreen(DeskScreen):
    """Everything at one glance."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "Pause", id="pause", show=False, tooltip="Freeze what is shown; reading goes on"),
        Binding("m", "maximise", "Maximise", id="maximise", show=False, tooltip="The focused panel alone, and back"),
        Binding("enter", "open_panel", "Details", id="details", show=False, tooltip="The focused panel in full"),
        Binding("j,down", "app.focus_next", "Next panel", id="next-panel", show=False),
        Binding("k,up", "app.focus_previous", "Previous panel", id="previous-panel", show=False),
        Binding("1", "panel(1)", "Panel 1", show=False, tooltip="Focus a panel by its number, 1 to 4"),
        *(Binding(str(number), f"panel({number})", "", show=False) for number in range(2, 5)),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._frozen: View | None = None

    def body(self) -> ComposeResult:
        with Container(id="upper"):
            yield Panel(paint_gpus.rows, "1 GPUs", id="gpus")
            yield Panel(paint_service.lines, "2 Service", id="service")
        with Container(id="lower"):
            yield Panel(_log, "3 Log", id="log")
            yield Panel(paint_events.lines, "4 Events", id="events")

    def show(self, view: View) -> None:
        """Paint the panels; a frozen screen keeps its moment and says so on top."""
        if self._frozen is not None:
            self.query_one(Top).show(replace(view, paused=True))
            view = self._frozen
        for panel in panels(self):
            panel.show(view)

    def action_pause(self) -> None:
        """Freeze the panels, or let them go on."""
        self._frozen = self.view if self._frozen is None else None
        self.refresh_view()

    def action_maximise(self) -> None:
        """Show the focused panel alone, or all again."""
        if self.maximized is not None:
            self.minimize()
        elif isinstance(self.focused, Panel):
            self.maximize(self.focused)

    async def action_open_panel(self) -> None:
        """Open what the focused panel is a part of."""
        focused = self.focused.id if self.focused is not None else None
        if focused in OPENS:
            await self.run_action(OPENS[focused])
        else:
            self.action_maximise()

    def action_panel(self, number: int) -> None:
        """Focus a panel by its number."""
        panels(self)[number - 1].focus()


def _log(view: View, width: int, height: int) -> list[Content]:
    return paint_log.lines(paint_log.telling(view.snapshot.log), width, height)
