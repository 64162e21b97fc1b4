"""How a transaction ended, and the next sensible step."""

from __future__ import annotations

from textual.app import ComposeResult

from ddtune.tui import paint_outcome, words
from ddtune.tui.screens.base import SubScreen
from ddtune.tui.view import View
from ddtune.tui.widgets.page import Page


class OutcomeScreen(SubScreen):
    """Outcome, cause, evidence, cost, next step."""

    def body(self) -> ComposeResult:
        page = Page(id="outcome")
        page.border_title = "Outcome"
        yield page

    def on_mount(self) -> None:
        """The page has the keys."""
        super().on_mount()
        self.query_one(Page).focus()

    def on_resize(self) -> None:
        """Fold the lines anew."""
        self.call_after_refresh(self._write)

    def show(self, view: View) -> None:
        """The outcome does not change any more: it is written once, and anew at a new size."""
        if view.run is not None:
            self._write()

    def _write(self) -> None:
        run, page = self.view.run, self.query_one(Page)
        if run is None:
            return
        if run.outcome is not None:
            page.write(paint_outcome.lines(run.outcome, run.plan, page.line_width))
        elif run.error is not None:
            page.write(words.folded("broke off", words.safe(run.error), page.line_width, words.BAD))
