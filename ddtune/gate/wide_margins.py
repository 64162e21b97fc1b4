"""Short questions with one sure answer: what a sound model says whatever the batch, and a broken one does not.

Held to those that stable answers rightly. One that is lost is asked once more; two of twenty may stay lost, because a
question can be nearer to a tie for this model than it looks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddtune.gate.model import Answer, CheckResult, Verdict
from ddtune.gate.probe import Probe

NAME = "wide_margins"
MAY_LOSE = 0.1
QUORUM = 0.5


def holds(probe: Probe, answer: Answer) -> bool:
    """Whether the expected word or number stands in the answer."""
    return re.search(rf"(?<!\w){re.escape(probe.expect)}(?!\w)", answer.text, re.IGNORECASE) is not None


def right(probes: Sequence[Probe], answers: Sequence[Answer]) -> tuple[str, ...]:
    """Ids of the questions that were answered rightly."""
    came = {answer.id: answer for answer in answers if answer.error is None}
    return tuple(probe.id for probe in probes if probe.id in came and holds(probe, came[probe.id]))


def judge(planned: Sequence[Probe], answers: Sequence[Answer], rightly: Sequence[str]) -> CheckResult:
    """The verdict over the questions that stable answers; ``rightly`` are those answered now, a second try included."""
    missing = sum(answer.error is not None for answer in answers)
    lost = [probe for probe in planned if probe.id not in rightly]
    said = f"{len(planned) - len(lost)} of {len(planned)} short questions that stable answers"
    if len(lost) - missing > MAY_LOSE * len(planned):
        texts = {answer.id: answer.text for answer in answers}
        first = next(probe for probe in lost if texts.get(probe.id) is not None)
        said += f"; not {first.expect!r} but {texts[first.id].strip()[:40]!r}"
        return CheckResult(NAME, Verdict.FAIL, said, cause="wrong_output")
    if missing or not planned:
        return CheckResult(NAME, Verdict.INCONCLUSIVE, f"{said}; {missing} did not come", cause="gate_inconclusive")
    return CheckResult(NAME, Verdict.PASS, said)
