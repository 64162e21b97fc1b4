"""How the gate asks the engine: the caller's ``send``, and what a lost connection means."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ddtune.gate.model import Answer, Request
from ddtune.gate.process_facts import Facts

Send = Callable[[Sequence[Request], int, float], Awaitable[list[Answer]]]
"""``send(requests, concurrency, deadline_s)``: one load on the host's loopback, an answer for each request.

Requests that ``deadline_s`` (seconds from the call) cuts come back as answers with ``error_kind`` ``cut``.
"""

Inspect = Callable[[], Awaitable[Facts]]
"""Reads the facts of the running process from the host."""


class EngineGone(Exception):  # noqa: N818 - it says what happened to the engine, not to ddtune
    """The engine refused or dropped a connection.

    The gate does not judge that: the caller's fault detection knows whether the process died and of what.
    """


def by_id(answers: Sequence[Answer]) -> dict[str, Answer]:
    """Answers by the id of their request."""
    return {answer.id: answer for answer in answers}


def lost(answers: Sequence[Answer]) -> Answer | None:
    """The first answer that a refused or dropped connection cost, or None."""
    return next((answer for answer in answers if answer.error_kind == "connection"), None)


def tokens(answers: Sequence[Answer]) -> int:
    """Completion tokens of all answers."""
    return sum(answer.completion_tokens for answer in answers)
