"""A transaction under way, with the log beside it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content

from ddtune.tui import paint_log, paint_run, words
from ddtune.tui.screens.base import SubScreen, panels
from ddtune.tui.screens.questions import AbortScreen
from ddtune.tui.view import View
from ddtune.tui.widgets.panel import Panel


class ProgressScreen(SubScreen):
    """Phases with their seconds, checks with their verdicts, and what happens if this laptop is closed now."""

    WRITES = frozenset(("abort",))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "abort", "Abort", id="abort", tooltip="Stop it; the host goes back to stable"),
        Binding("m", "maximise", "Maximise", id="maximise-progress", show=False),
    ]

    def body(self) -> ComposeResult:
        with Container(id="work"):
            yield Panel(paint_run.lines, "Phases", id="phases")
            yield Panel(_log, "Log", id="run-log")
        yield Panel(_closing, id="closing", focusable=False)

    def show(self, view: View) -> None:
        """Paint the phases, the log and the sentence."""
        phases = self.query_one("#phases", Panel)
        run = view.run
        if run is not None:
            phases.border_title = Content(f"{run.kind} {words.word(run.target)} · {words.span(view.now - run.began)}")
        elif view.snapshot.txn is not None:
            txn = view.snapshot.txn
            owner = txn.get("owner") or {}
            who = f"{words.word(owner.get('who'))}@{words.word(owner.get('host'))}"
            target = words.word(txn.get("candidate_profile"))
            phases.border_title = Content(f"{words.word(txn.get('kind'))} {target} · by {who}")
        for panel in [*panels(self), self.query_one("#closing", Panel)]:
            panel.show(view)

    def action_abort(self) -> None:
        """Ask, then stop it."""
        self.app.push_screen(AbortScreen(self.desk), self._answered)

    def action_maximise(self) -> None:
        """Show the focused panel alone, or all again."""
        if self.maximized is not None:
            self.minimize()
        elif isinstance(self.focused, Panel):
            self.maximize(self.focused)

    def _answered(self, confirmed: bool | None) -> None:
        if confirmed:
            self.desk.go_back()


def _log(view: View, width: int, height: int) -> list[Content]:
    return paint_log.lines(paint_log.telling(view.snapshot.log), width, height)


def _closing(view: View, width: int, _height: int) -> list[Content]:
    lines = words.folded("", paint_run.closing(view), width, "bold", 1)
    note = words.line((f" {view.run.note}", words.WARN)) if view.run and view.run.note else None
    return [note or paint_run.countdown(view, width), *lines]
