"""Checks and their verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """``INCONCLUSIVE`` means that the check could not finish; it never counts as a pass."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class CheckResult:
    """What one planned check found. ``cause`` is an incident class when it failed.

    ``budget`` is the most tokens that it may generate, ``requests`` what it asked.
    """

    name: str
    verdict: Verdict
    reason: str
    seconds: float = 0.0
    tokens: int = 0
    cause: str | None = None
    budget: int | None = None
    requests: int = 0


@dataclass(frozen=True)
class GateEvent:
    """Where a stage (``quick``, ``full`` or ``soak``) stands, told when a check begins and whenever answers came.

    ``asked`` and ``answered`` requests and ``tokens`` are the check's own; ``number`` of ``of`` counts the stage's
    checks; ``result`` is there when the check is over.
    """

    stage: str
    check: str
    number: int
    of: int
    asked: int = 0
    answered: int = 0
    tokens: int = 0
    budget: int | None = None
    seconds: float = 0.0
    result: CheckResult | None = None


@dataclass(frozen=True)
class Request:
    """One generation asked of the engine on the host's loopback.

    ``path`` is ``/generate`` or ``/v1/chat/completions``; ``body`` is its JSON; ``id`` names the request in its answer.
    """

    id: str
    path: str
    body: Mapping[str, Any]
    timeout_s: float = 60.0

    def to_dict(self) -> dict[str, Any]:
        """The shape that the host's load program takes."""
        return {"id": self.id, "path": self.path, "body": dict(self.body), "timeout_s": self.timeout_s}


@dataclass(frozen=True)
class Answer:
    """What came back. ``error`` is one sentence when no completed generation did.

    ``error_kind`` says what kind: ``connection`` (refused, reset, closed), ``timeout`` (its own limit), ``cut`` (the
    load's deadline), ``not_sent``, ``http`` (a status that is not 200), ``aborted`` (by the engine) or ``body`` (an
    error inside a 200 answer). ``gaps`` are, by position, the nats between the two likeliest tokens and ``runners_up``
    the one of them that was not taken, where they were asked for. ``cached_tokens`` of the prompt came from the cache;
    ``weight_version`` names the weights that answered, where the build tells it.
    """

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
    error_kind: str | None = None
    gaps: tuple[float, ...] = ()
    runners_up: tuple[int, ...] = ()
    cached_tokens: int | None = None
    weight_version: str | None = None

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Answer:
        """The answer that the host's load program wrote; unknown keys are ignored, absent ones keep their default."""
        known = {spec.name: body[spec.name] for spec in fields(cls) if spec.name in body}
        for name in ("token_ids", "gaps", "runners_up"):
            known[name] = tuple(known.get(name) or ())
        return cls(**known)


@dataclass(frozen=True)
class GateReport:
    """The verdict of one gate: every planned check, and those not planned with the reason why."""

    checks: Mapping[str, CheckResult] = field(default_factory=dict)
    not_planned: Mapping[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every planned check passed; a gate without checks has not passed."""
        return bool(self.checks) and all(check.verdict is Verdict.PASS for check in self.checks.values())

    @property
    def failed(self) -> CheckResult | None:
        """The first check that failed, else the first that could not finish, else None."""
        for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
            for check in self.checks.values():
                if check.verdict is verdict:
                    return check
        return None

    def merged(self, later: GateReport) -> GateReport:
        """This report, then a later stage's: a check that ran in both keeps the worse verdict and adds its costs."""
        checks = dict(self.checks)
        for name, check in later.checks.items():
            checks[name] = _worse(checks[name], check) if name in checks else check
        return GateReport(checks, {**self.not_planned, **later.not_planned})


_RANK = {Verdict.PASS: 0, Verdict.INCONCLUSIVE: 1, Verdict.FAIL: 2}


def _worse(first: CheckResult, second: CheckResult) -> CheckResult:
    kept = first if _RANK[first.verdict] > _RANK[second.verdict] else second
    budgets = [check.budget for check in (first, second) if check.budget is not None]
    return replace(
        kept,
        seconds=first.seconds + second.seconds,
        tokens=first.tokens + second.tokens,
        requests=first.requests + second.requests,
        budget=sum(budgets) if budgets else None,
    )
