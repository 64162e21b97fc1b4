"""The keys of the screen below, from its bindings themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen

from ddtune.tui import words
from ddtune.tui.widgets.page import Page

SIGNS = {
    "●": "runs now",
    "▸ ✓ ✗ ·": "under way, done, failed, still to come",
    "—": "not available",
    "STALE": "older than three readings",
    "!": "hot, bad or failed",
}

MORE = (
    "The grey word is an id: [keys] in the config binds another key to it.",
    "Select text with the mouse while holding Shift, or start with --no-mouse.",
)
OTHERS = ("app.focus", "screen.")
"""Actions of Textual's own that need no word here."""


class HelpScreen(ModalScreen[None]):
    """Keys and signs."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "dismiss", "Close", id="close-help")]

    def __init__(self, bindings: Iterable[ActiveBinding]) -> None:
        super().__init__()
        # What the line at the bottom names comes first.
        self._active = sorted(bindings, key=lambda one: not one.binding.show)

    def compose(self) -> ComposeResult:
        page = Page(id="help")
        page.border_title = "Help · q closes it"
        yield page

    def on_mount(self) -> None:
        """Write the page once its width is known."""
        self.query_one(Page).focus()
        self.call_after_refresh(self._write)

    def on_resize(self) -> None:
        """Fold the lines anew."""
        self.call_after_refresh(self._write)

    def _write(self) -> None:
        page, blank = self.query_one(Page), words.line("")
        keys = _keys(self._active, self.app.get_key_display, page.line_width)
        page.write([*keys, blank, *_signs(), blank, *_more()])


def _keys(bindings: Iterable[ActiveBinding], display: object, width: int) -> list[Content]:
    assert callable(display)
    keys: dict[tuple[str, str], list[str]] = {}
    ids: dict[tuple[str, str], str] = {}
    for active in bindings:
        binding = active.binding
        if not binding.description or binding.system or binding.action.startswith(OTHERS):
            continue
        dead = "" if active.enabled else " (not while the host cannot be reached)"
        text = (binding.tooltip or binding.description) + dead
        keys.setdefault((binding.action, text), []).append(str(display(binding)))
        if binding.id:
            ids.setdefault((binding.action, text), binding.id)
    return [
        words.fit(
            words.line(
                (f" {' '.join(dict.fromkeys(shown)):<11} ", f"bold {words.NOTE}"),
                one[1],
                (f"  {ids[one]}" if one in ids else "", words.MUTED),
            ),
            width,
        )
        for one, shown in keys.items()
    ]


def _more() -> list[Content]:
    return [words.line((f" {line}", words.MUTED)) for line in MORE]


def _signs() -> list[Content]:
    return [words.line((f" {sign:<16}", "bold"), meaning) for sign, meaning in SIGNS.items()]
