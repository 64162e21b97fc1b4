"""Does the candidate go on as stable does: greedy token ids, judged by stable's agreement with itself.

Rule. For each prompt, the first position where the candidate differs from stable. The candidate fails when the median
of these positions is under ``floor = min(5 tokens, a quarter of stable's median against itself)``, so when more than
half of the prompts part at once.

Why so wide. Equality is no sign of health and divergence none of a fault: a verify forward of ``budget + 1`` rows and a
decode of one row differ in the last bit and flip near-ties. Published runs agree over about the first 100 tokens; the
worst healthy ones part after 21 to 31 characters (about 6 tokens), with speculation off as well. A corrupted decode
parts at once: position 0, or 1 to 2 where the first token still comes from a sound prefill. What lies between (a wrong
answer that starts well) is for the copies, the coding problems and the detectors, not for this check. With 4 prompts
(quick) it needs three, with 10 and 16 (full) more than half: corruption that spares most prompts passes here.

Where an answer has no token ids, words of its text are compared instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from ddtune.gate.model import Answer, CheckResult, Verdict

NAME = "agreement"
FLOOR_TOKENS = 5
SELF_SHARE = 0.25
# Under this, stable parts from itself at once and cannot judge anybody.
SELF_LEAST = 4
# An identical answer counts at least this much, however short.
IDENTICAL = 32
MISSING_SHARE = 0.25


def agreed(first: Answer, second: Answer) -> int:
    """How many tokens (or words) two answers have in common from the start; identical ones count at least 32."""
    left, right = _units(first, second)
    if left == right:
        return max(len(left), IDENTICAL)
    common = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        common += 1
    return common


def self_agreement(reference: Mapping[str, Answer], repeats: Mapping[str, Answer]) -> float | None:
    """Stable's median agreement with itself in tokens, None where no prompt was run twice."""
    values = [
        agreed(reference[name], again)
        for name, again in repeats.items()
        if _usable(again) and _usable(reference.get(name))
    ]
    return median(values) if values else None


def judge(reference: Mapping[str, Answer], repeats: Mapping[str, Answer], candidate: Sequence[Answer]) -> CheckResult:
    """The verdict for the candidate's answers, matched to stable's by id."""
    scores = []
    missing = 0
    for answer in candidate:
        stable = [one for one in (reference.get(answer.id), repeats.get(answer.id)) if one is not None and _usable(one)]
        if not stable or not _usable(answer):
            missing += 1
            continue
        scores.append(max(agreed(one, answer) for one in stable))
    own = self_agreement(reference, repeats)
    if own is None or not scores:
        return _inconclusive("there is no pair of answers of stable and of this service to compare")
    if own < SELF_LEAST:
        return _inconclusive(f"stable parts from itself after {own:.0f} tokens, so it cannot judge another")
    floor = min(FLOOR_TOKENS, SELF_SHARE * own)
    middle = median(scores)
    said = f"parts from stable after {middle:.0f} tokens (median of {len(scores)}), stable from itself after {own:.0f}"
    if middle < floor:
        return CheckResult(NAME, Verdict.FAIL, f"{said}; at least {floor:.0f} are expected", cause="wrong_output")
    if missing > MISSING_SHARE * len(candidate):
        return _inconclusive(f"{missing} of {len(candidate)} answers are missing")
    return CheckResult(NAME, Verdict.PASS, said)


def _inconclusive(text: str) -> CheckResult:
    return CheckResult(NAME, Verdict.INCONCLUSIVE, text, cause="gate_inconclusive")


def _usable(answer: Answer | None) -> bool:
    return answer is not None and answer.error is None


def _units(first: Answer, second: Answer) -> tuple[Sequence[object], Sequence[object]]:
    if first.token_ids and second.token_ids:
        return first.token_ids, second.token_ids
    return first.text.split(), second.text.split()
