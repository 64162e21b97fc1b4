"""The accept length: with speculation on, tokens per verify call must be above 1.

A value of 1.00 is pure overhead even where the text is right (a draft that is never accepted), so it fails. Any other
value proves nothing: a corrupted engine can agree with itself, and the same profile gives half of it on other text. So
a value far under the expectation is a warning in the reason, and no value passes a profile whose answers are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from ddtune.gate.model import Answer, CheckResult, Verdict

NAME = "accept_length"
COLLAPSED = 1.05
FAR_UNDER = 0.5
LEAST_CALLS = 16
PINNED_WINDOWS = 3


def measured(answers: Sequence[Answer]) -> tuple[float | None, int]:
    """Tokens per verify call over all answers that report verify calls, with the number of calls; None without any."""
    told = [answer for answer in answers if answer.error is None and answer.verify_calls]
    calls = sum(answer.verify_calls or 0 for answer in told)
    if not calls:
        return None, 0
    return sum(answer.completion_tokens for answer in told) / calls, calls


def judge(answers: Sequence[Answer], expect: float | None) -> CheckResult:
    """The verdict over the answers of a stage; ``expect`` is the profile's own expectation."""
    value, calls = measured(answers)
    if value is None:
        return _inconclusive("no answer reported its verify calls")
    # A long accept length makes few calls; so many accepted drafts tell as much.
    if calls < LEAST_CALLS and (value - 1) * calls < LEAST_CALLS:
        return _inconclusive(f"only {calls} verify calls were seen, {LEAST_CALLS} are needed")
    said = f"{value:.2f} tokens per verify call over {calls} calls"
    if value <= COLLAPSED:
        return CheckResult(NAME, Verdict.FAIL, f"{said}: no draft is accepted", cause="accept_collapse")
    if expect:
        said += f", {expect:.2f} expected"
        if value < FAR_UNDER * expect:
            said += f"; warning: far under the expectation ({value / expect:.0%})"
    return CheckResult(NAME, Verdict.PASS, said)


def pinned(windows: Sequence[tuple[float | None, float | None]], least: int = PINNED_WINDOWS) -> bool:
    """Whether the newest ``least`` windows of a service, each ``(accept length, running requests)``, all stood at 1.00.

    Windows in which nothing ran say nothing and are passed over. An engine that says 1.00 for so long accepts nothing
    any more; only a restart has been seen to cure that.
    """
    told = [value for value, running in windows if value is not None and running]
    return len(told) >= least and all(value <= COLLAPSED for value in told[-least:])


def _inconclusive(text: str) -> CheckResult:
    return CheckResult(NAME, Verdict.INCONCLUSIVE, text, cause="gate_inconclusive")
