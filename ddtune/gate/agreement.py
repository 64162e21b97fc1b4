"""Does the candidate go on as the reference does: greedy token ids, judged by the reference's agreement with itself.

Two rules, each on the first position where a prompt's answer differs from the reference's.

*Where it parts.* With the gaps between the reference's two likeliest tokens known, a parting is harmless at a near-tie
(0.5 nats and less) with the other likely token, or where the reference parts from itself; all else is a suspect. The
candidate fails with more suspects than the reference's own share of them allows: a binomial tail under 1 in 10,000, a
share of at least 2 % taken as its own. With 22 prompts that is 5 suspects and more; with the quick gate's 4 it is 3.

*When it parts.* Without gaps only early partings tell: the candidate fails when the median is under ``floor = min(5
tokens, a quarter of the reference's median against itself)``, so when more than half of the prompts part at once.

Why so wide. Equality is no sign of health and divergence none of a fault: a verify forward of ``budget + 1`` rows and a
decode of one row differ in the last bit and flip near-ties. Published runs agree over about the first 100 tokens; the
worst healthy ones part after 21 to 31 characters (about 6 tokens), with speculation off as well. A corrupted decode
parts at once: position 0, or 1 to 2 where the first token still comes from a sound prefill. What lies between (a wrong
answer that starts well, no gaps known) is for the copies, the coding problems and the detectors. Corruption that spares
most prompts passes here.

Where an answer has no token ids, words of its text are compared instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ddtune.gate.chances import allowed
from ddtune.gate.model import Answer, CheckResult, Verdict
from ddtune.gate.reference import Reference, agreed, suspicious, usable

NAME = "agreement"
FLOOR_TOKENS = 5
SELF_SHARE = 0.25
# Under this, the reference parts from itself at once and cannot judge anybody.
SELF_LEAST = 4
MISSING_SHARE = 0.25
ALPHA = 1e-4
LEAST_SUSPECT_SHARE = 0.02
# Such prompts share no longer prefix with anything else.
WARM_TOKENS = 16


def judge(reference: Reference, candidate: Sequence[Answer]) -> CheckResult:
    """The verdict for the candidate's answers, matched to the reference's by id."""
    scores, suspects, missing, warm = [], 0, 0, 0
    for answer in candidate:
        first = reference.answers.get(answer.id)
        if first is None or not usable(first) or not usable(answer):
            missing += 1
            continue
        others = [one for one in reference.again.get(answer.id, ()) if usable(one)]
        best = max(agreed(one, answer) for one in (first, *others))
        scores.append(best)
        suspects += suspicious(first, answer) and best <= agreed(first, answer)
        warm += (answer.cached_tokens or 0) >= WARM_TOKENS
    own, own_suspects, runs = reference.own()
    if own is None or not scores:
        return _inconclusive("there is no pair of answers of the reference and of this service to compare")
    if own < SELF_LEAST:
        return _inconclusive(f"the reference parts from itself after {own:.0f} tokens, so it cannot judge another")
    floor, middle = min(FLOOR_TOKENS, SELF_SHARE * own), median(scores)
    said = (
        f"parts after {middle:.0f} tokens (median of {len(scores)}) from {reference.said}, "
        f"which parts from itself after {own:.0f}"
    )
    if warm:
        said += f"; {warm} were asked before and came from a warm cache"
    if middle < floor:
        return CheckResult(NAME, Verdict.FAIL, f"{said}; at least {floor:.0f} are expected", cause="wrong_output")
    if reference.has_margins:
        share = max(LEAST_SUSPECT_SHARE, (own_suspects + 1) / (runs + 2) if own_suspects else 0.0)
        most = allowed(len(scores), share, ALPHA)
        said += f"; {suspects} of {len(scores)} part where it was sure, at most {most} are expected"
        if suspects > most:
            return CheckResult(NAME, Verdict.FAIL, said, cause="wrong_output")
    if missing > MISSING_SHARE * len(candidate):
        return _inconclusive(f"{missing} of {len(candidate)} answers are missing")
    return CheckResult(NAME, Verdict.PASS, said)


def _inconclusive(text: str) -> CheckResult:
    return CheckResult(NAME, Verdict.INCONCLUSIVE, text, cause="gate_inconclusive")
