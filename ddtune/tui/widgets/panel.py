"""A panel shows what a pure painter makes of a moment at the panel's size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.content import Content, Span
from textual.geometry import Region
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from ddtune.tui.view import View

Painter = Callable[[View, int, int], list[Content]]

BETWEEN = "\n"
"""Between the names of styles that lie on one another."""


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
        self._styles: dict[str, RichStyle] = {}
        self._base: Style | None = None

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
        self._base = None
        super().notify_style_update()

    def render(self) -> Content:
        """What was painted last."""
        return Content("\n").join(self._lines)

    def render_line(self, y: int) -> Strip:
        """One line of it."""
        if self._base is None:
            self._base = self.visual_style
            self._styles.clear()
            self._strips.clear()
        found = self._strips.get(y)
        if found is None or found.cell_length != self.size.width:
            found = self._strips[y] = self._drawn(y, self._base)
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

    def _drawn(self, y: int, base: Style) -> Strip:
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width, base.rich_style)
        strip = Strip([Segment(text, self._rich(base, style)) for text, style in pieces(self._lines[y])])
        return strip.adjust_cell_length(width, base.rich_style)

    def _rich(self, base: Style, style: str) -> RichStyle:
        found = self._styles.get(style)
        if found is None:
            # More than one style lies on a part, the outer one first.
            parsed = [self._get_style(one) for one in style.split(BETWEEN) if one]
            found = self._styles[style] = sum(parsed, base).rich_style
        return found


def pieces(content: Content) -> list[tuple[str, str]]:
    """A line as texts, each with the names of its styles. Textual's own way costs five times as much."""
    text, spans = content.plain, content.spans
    if all(one.end <= two.start for one, two in itertools.pairwise(spans)):
        return list(_side_by_side(text, spans))
    edges = sorted({0, len(text), *(one.start for one in spans), *(one.end for one in spans)})
    return [
        (text[start:end], BETWEEN.join(str(one.style) for one in spans if one.start <= start and end <= one.end))
        for start, end in itertools.pairwise(edges)
    ]


def _side_by_side(text: str, spans: Sequence[Span]) -> Iterator[tuple[str, str]]:
    done = 0
    for one in spans:
        if one.start > done:
            yield text[done : one.start], ""
        if one.end > one.start:
            yield text[one.start : one.end], str(one.style)
        done = max(done, one.end)
    if done < len(text):
        yield text[done:], ""
