"""Answers with production's own sampling: no text can be compared, so they are read by the detectors.

A tree may verify greedily only and fall back to a chain, or to nothing, at a temperature: the accept length beside the
greedy one's is said, and never fails.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ddtune.gate import accept, detectors
from ddtune.gate.model import Answer, CheckResult, Verdict
from ddtune.gate.probe import Probe

NAME = "sampling"
FAR_UNDER = 0.75
LEAST_CALLS = 16


def judge(
    pairs: Sequence[tuple[Probe, Answer]], quirks: Collection[tuple[str, str]], greedy: Sequence[Answer]
) -> CheckResult:
    """The verdict over sampled answers; ``greedy`` are answers of the same start without sampling."""
    result = replace(detectors.judge(pairs, quirks), name=NAME)
    if result.verdict is not Verdict.PASS:
        return result
    rate, calls = accept.measured([answer for _, answer in pairs])
    plain, plain_calls = accept.measured(greedy)
    if rate is None or plain is None or min(calls, plain_calls) < LEAST_CALLS:
        return result
    said = f"{result.reason}; {rate:.2f} tokens per verify call, {plain:.2f} without sampling"
    if rate < FAR_UNDER * plain and plain > accept.COLLAPSED:
        said += "; warning: with sampling far fewer drafts are accepted, as when a tree is verified as a chain"
    return replace(result, reason=said)
