"""The dashboard on a recording, with keys to move in it."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from ddtune.live.recording import Recording
from ddtune.tui.app import DdtuneApp
from ddtune.tui.look import Look
from ddtune.tui.replay_desk import ReplayDesk

STEP_S = 10.0
NOT_HERE = frozenset(("unlock", "switch", "roll_back", "refresh"))


class ReplayApp(DdtuneApp):
    """The same screens; what changes or asks a host is not there."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "play", "Play", id="play", tooltip="Stand still, or play on"),
        Binding("comma", "move(-1)", "-10 s", id="step-back", tooltip="10 seconds back"),
        Binding("full_stop", "move(1)", "+10 s", id="step-on", tooltip="10 seconds on"),
        Binding("n", "event(1)", "Next", id="next-event", tooltip="To the next change of the transaction or the link"),
        Binding("N", "event(-1)", "Last", id="last-event", tooltip="Back to the change before"),
        Binding("right_square_bracket", "faster(1)", "Faster", id="faster", show=False),
        Binding("left_square_bracket", "faster(-1)", "Slower", id="slower", show=False),
    ]

    def __init__(self, desk: ReplayDesk, look: Look | None = None) -> None:
        super().__init__(desk, look)
        self._replay = desk

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is no host to ask or to change."""
        return False if action in NOT_HERE else super().check_action(action, parameters)

    def action_play(self) -> None:
        """Stand still, or play on."""
        self._replay.pause()

    def action_move(self, steps: int) -> None:
        """Some seconds on or back."""
        self._replay.move(steps * STEP_S)

    def action_event(self, way: int) -> None:
        """To the next change, or the one before."""
        self._replay.next_event(way)

    def action_faster(self, steps: int) -> None:
        """Another speed."""
        self._replay.faster(steps)


def replay(recording: Recording, *, speed: float, start_s: float, look: Look) -> int:
    """Play until it is left; gives the exit code."""
    desk = ReplayDesk(recording, speed=speed, start_s=start_s)
    app = ReplayApp(desk, look)
    try:
        app.run(mouse=look.mouse)
    finally:
        desk.stop()
    return app.return_code or 0
