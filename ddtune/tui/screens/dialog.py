"""A question in the middle of the screen; the safe answer is focused."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from ddtune.tui import words

NOT_NOW = "Not while the host cannot be reached: nothing was asked of it."


class Dialog(ModalScreen[bool]):
    """``y`` or the second button says yes; ``n``, escape, q or the focused first button says no.

    With ``name`` the answer is yes only once that name was typed. ``yes=None`` leaves only the way back. While
    ``alive`` says no, nothing says yes: a key that is pressed on a lost link is not kept for it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "Yes", id="yes"),
        Binding("n,q,escape", "no", "No", id="no"),
        Binding("left,h", "app.focus_previous", "Left", show=False),
        Binding("right,l", "app.focus_next", "Right", show=False),
    ]

    def __init__(
        self,
        title: str,
        text: str,
        *,
        yes: str | None,
        no: str = "Cancel",
        name: str | None = None,
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__()
        self._title, self._text, self._wanted = title, text, name
        self._yes, self._no, self._alive = yes, no, alive

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as box:
            box.border_title = Content(words.safe(self._title))
            yield Static(Content(words.safe(self._text)), id="question")
            if self._wanted is not None:
                yield Static(Content(f"Type {words.safe(self._wanted)} to go on:"), id="ask-name")
                yield Input(id="name", compact=True)
            with Horizontal(id="buttons"):
                yield Button(Content(self._no), id="no", compact=True)
                if self._yes is not None:
                    key = "" if self._wanted is not None else " (y)"
                    yield Button(Content(self._yes + key), id="yes", compact=True, disabled=self._wanted is not None)

    def on_mount(self) -> None:
        """Where a name is wanted it is typed; else the safe answer has the focus."""
        self.query_one("#name" if self._wanted is not None else "#no").focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key says yes only where nothing has to be typed."""
        del parameters
        return action != "yes" or (self._yes is not None and self._wanted is None)

    @on(Button.Pressed, "#yes")
    def action_yes(self) -> None:
        """Go on."""
        if self._alive():
            self.dismiss(True)
        else:
            text = words.safe(self._text)
            self.query_one("#question", Static).update(Content(f"{text}\n\n{NOT_NOW}"))

    @on(Button.Pressed, "#no")
    def action_no(self) -> None:
        """Leave everything as it is."""
        self.dismiss(False)

    @on(Input.Changed, "#name")
    def typed(self, event: Input.Changed) -> None:
        """The answer lives once the name is right."""
        for button in self.query("#yes").results(Button):
            button.disabled = event.value.strip() != self._wanted

    @on(Input.Submitted, "#name")
    def submitted(self, event: Input.Submitted) -> None:
        """Enter behind the right name goes on; behind a wrong one it says so."""
        if event.value.strip() == self._wanted:
            self.action_yes()
        else:
            self.query_one("#ask-name", Static).update(Content(f"That is not {words.safe(self._wanted)}:"))
