"""A panel shows what a pure painter makes of a moment at the panel's size."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content
from textual.widget import Widget

from ddtune.tui.view import View

Painter = Callable[[View, int, int], list[Content]]


class Panel(Widget, can_focus=True):
    """Paints again on a new moment and on a new size, and only when that changes what is seen."""

    ALLOW_MAXIMIZE = True

    def __init__(self, paint: Painter, title: str = "", *, id: str, focusable: bool = True) -> None:  # noqa: A002 (Textual's own name)
        super().__init__(id=id)
        self.can_focus = focusable
        self.border_title = Content(title)
        self._paint = paint
        self._moment: View | None = None
        self._painted = Content("")

    def show(self, view: View) -> None:
        """Paint this moment."""
        self._moment = view
        width, height = self.content_size
        if width < 1 or height < 1:
            return
        content = Content("\n").join(self._paint(view, width, height))
        if not content.is_same(self._painted):
            self._painted = content
            self.refresh()

    def on_resize(self) -> None:
        """Paint at the new size."""
        if self._moment is not None:
            self.show(self._moment)

    def render(self) -> Content:
        """What was painted last."""
        return self._painted
