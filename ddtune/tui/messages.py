"""What the desk's thread and the screens tell the app."""

from __future__ import annotations

from textual.message import Message

from ddtune.rollout.model import Plan


class Moved(Message):
    """The host or a transaction moved; the newest moment is taken when this is handled."""


class Confirmed(Message):
    """A plan was confirmed by hand."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
