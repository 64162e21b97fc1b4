"""What all full screens share: the lines on top, the keys below, and one way to be told of a new moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import Future
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer

from ddtune.tui import words
from ddtune.tui.desk import Desk
from ddtune.tui.paint_status import status_line
from ddtune.tui.view import View
from ddtune.tui.widgets.panel import Panel
from ddtune.tui.widgets.top import Top

T = TypeVar("T")

LEAST = (60, 15)


class DeskScreen(Screen[None]):
    """A screen of one host. ``show`` is called with each new moment while it is seen."""

    HORIZONTAL_BREAKPOINTS = [(0, "-slim"), (LEAST[0], "-narrow"), (110, "-medium"), (150, "-wide")]  # noqa: RUF012 (as Textual declares it)
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (LEAST[1], "-short"), (32, "-tall")]  # noqa: RUF012 (as Textual declares it)
    ALLOW_IN_MAXIMIZED_VIEW = "Top, Footer"
    WRITES: ClassVar[frozenset[str]] = frozenset()
    """Actions of this screen that change the host: hidden when locked, dead while the link is down."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self.view = desk.view()
        self._whole = False

    def compose(self) -> ComposeResult:
        yield Top()
        yield from self.body()
        yield Footer(show_command_palette=False, compact=True)
        yield Panel(_too_small, id="too-small", focusable=False)

    def body(self) -> ComposeResult:
        """What stands between the lines on top and the keys."""
        yield from ()

    def on_mount(self) -> None:
        """Show the present moment at once."""
        self._whole = True
        self.call_after_refresh(self.refresh_view)

    def on_screen_resume(self) -> None:
        """Coming back, show what is now."""
        self.refresh_view()

    def refresh_view(self) -> None:
        """Take the newest moment and paint it, unless the screen is not there yet or no more."""
        # An app that ends takes its screens apart from below.
        if not self._whole or not self.is_attached or not self.app.is_running:
            return
        before, self.view = self.view, self.desk.view()
        self.query_one(Top).show(self.view)
        self.query_one("#too-small", Panel).show(self.view)
        self.show(self.view)
        if keys_of(before) != keys_of(self.view):
            self.refresh_bindings()

    def show(self, view: View) -> None:
        """Paint this moment in the body."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether an action is there: True, False for hidden, None for shown and dead."""
        del parameters
        return allowed(self.view) if action in self.WRITES else True


class SubScreen(DeskScreen):
    """A screen above the live one: q leads back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "app.back", "Back", id="back-one", tooltip="Back to the screen before"),
    ]


def allowed(view: View) -> bool | None:
    """Whether a change may be asked for: False when locked, None while the host cannot be reached."""
    if not view.writable:
        return False
    return True if view.link_up else None


def keys_of(view: View) -> tuple[bool, ...]:
    """What decides which keys are alive."""
    run = view.run
    return view.writable, view.link_up, view.txn is not None, run is not None, run is not None and run.active


def answer(future: Future[T]) -> Awaitable[T]:
    """Wait for the desk without a way to cancel it: what a screen no longer waits for still ends in order."""
    return asyncio.shield(asyncio.wrap_future(future))


def _too_small(view: View, width: int, _height: int) -> list[Content]:
    size = f"needs {LEAST[0]}×{LEAST[1]}"
    line = (
        status_line(view, max(1, width - len(size) - 2))
        if width > 44
        else words.line(view.snapshot.service.health.upper())
    )
    return [words.fit(words.line((size, "bold"), "  ", line), width)]


def panels(screen: Widget) -> list[Panel]:
    """The panels of a screen that can be focused, in order."""
    return [panel for panel in screen.query(Panel) if panel.can_focus]
