"""What the desk's thread tells the app."""

from __future__ import annotations

from textual.message import Message

from ddtune.rollout.model import Outcome, Progress


class SnapshotArrived(Message):
    """A newer snapshot is there; the newest one is taken when this is handled."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, SnapshotArrived)


class Progressed(Message):
    """A running transaction moved."""

    def __init__(self, step: Progress) -> None:
        super().__init__()
        self.step = step


class Ended(Message):
    """A transaction ended, or broke with one sentence."""

    def __init__(self, outcome: Outcome | None, error: str | None) -> None:
        super().__init__()
        self.outcome = outcome
        self.error = error
