"""Checks and their verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """``INCONCLUSIVE`` means that the check could not finish; it never counts as a pass."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class CheckResult:
    """What one planned check found. ``cause`` is an incident class when it failed."""

    name: str
    verdict: Verdict
    reason: str
    seconds: float = 0.0
    tokens: int = 0
    cause: str | None = None


@dataclass(frozen=True)
class Request:
    """One generation asked of the engine on the host's loopback.

    ``path`` is ``/generate`` or ``/v1/chat/completions``; ``body`` is its JSON; ``id`` names the request in its answer.
    """

    id: str
    path: str
    body: Mapping[str, Any]
    timeout_s: float = 60.0


@dataclass(frozen=True)
class Answer:
    """What came back. ``error`` is one sentence when no completed generation did."""

    id: str
    text: str = ""
    reasoning: str = ""
    token_ids: tuple[int, ...] = ()
    completion_tokens: int = 0
    finish_reason: str | None = None
    verify_calls: int | None = None
    accept_length: float | None = None
    status: int | None = None
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class GateReport:
    """The verdict of one gate: every planned check, and those not planned with the reason why."""

    checks: Mapping[str, CheckResult] = field(default_factory=dict)
    not_planned: Mapping[str, str] = field(default_factory=dict)
