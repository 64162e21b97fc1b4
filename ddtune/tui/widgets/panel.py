"""A panel shows what a pure painter makes of a moment at the panel's size."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from ddtune.tui.view import View

Painter = Callable[[View, int, int], list[Content]]


class Panel(Widget, can_focus=True):
    """Paints again on a new moment and on a new size, and of that only the lines that changed."""

    ALLOW_MAXIMIZE = True

    def __init__(self, paint: Painter, title: str = "", *, id: str, focusable: bool = True) -> None:  # noqa: A002 (Textual's own name)
        super().__init__(id=id)
        self.can_focus = focusable
        self.border_title = Content(title)
        self._paint = paint
        self._moment: View | None = None
        self._lines: list[Content] = []
        self._strips: dict[int, Strip] = {}
        self._styled: Style | None = None

    def show(self, view: View) -> None:
        """Paint this moment."""
        self._moment = view
        width, height = self.content_size
        if width > 0 and height > 0:
            self._take(self._paint(view, width, height)[:height])

    def on_resize(self) -> None:
        """Paint at the new size."""
        if self._moment is not None:
            self.show(self._moment)

    def notify_style_update(self) -> None:
        """Other colours: what was drawn is drawn again."""
        self._strips.clear()
        super().notify_style_update()

    def render(self) -> Content:
        """What was painted last."""
        return Content("\n").join(self._lines)

    def render_line(self, y: int) -> Strip:
        """One line of it."""
        style = self.visual_style
        if style != self._styled:
            self._styled = style
            self._strips.clear()
        found = self._strips.get(y)
        if found is None or found.cell_length != self.size.width:
            found = self._strips[y] = self._drawn(y, style)
        return found

    def _take(self, lines: list[Content]) -> None:
        before, self._lines = self._lines, lines
        width = self.size.width
        changed = [
            y
            for y in range(max(len(before), len(lines)))
            if y >= len(before) or y >= len(lines) or not lines[y].is_same(before[y])
        ]
        for y in changed:
            self._strips.pop(y, None)
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def _drawn(self, y: int, style: Style) -> Strip:
        base = style.rich_style
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width, base)
        parts = self._lines[y].render(style, end="", parse_style=self._get_style)
        strip = Strip([Segment(text, (style + one).rich_style) for text, one in parts])
        return strip.adjust_cell_length(width, base)
