"""A text longer than the screen: scrolled by keys."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static


class Page(VerticalScroll):
    """Lines that are made for a width, with j and k to scroll."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
        Binding("g", "scroll_home", "Top", show=False),
        Binding("G", "scroll_end", "End", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002 (Textual's own name)
        super().__init__(id=id)
        self._lines = Static("", markup=False)

    def compose(self) -> ComposeResult:
        yield self._lines

    def write(self, lines: list[Content]) -> None:
        """Show these lines instead."""
        self._lines.update(Content("\n").join(lines))

    @property
    def line_width(self) -> int:
        """Cells that a line may have."""
        return max(20, self.size.width - 2)
