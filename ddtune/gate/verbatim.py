"""Does the service copy a text: the widest margins that a greedy model has, so the sharpest cheap test of a decode.

Copies are compared word by word, so that wrapped lines do not count. Stable's own copies set the measure, because a
small model does not copy perfectly. Rule: no copy under half of its words where stable had none; the mean not more than
0.02 under stable's, or three standard errors of the difference where stable's own copies differ; and not more copies
inexact than 5 %, or than stable's own share makes likely (1 in 1,000) where some of its copies are. A model that copies
only what it is shown twice errs now and then, on a few texts: a few exact copies of stable's do not say that it never
does, and it is judged as one whose copies differ, of which one may go astray. (Of 144 such copies by a model of 135
million parameters, 16 to 40 words long, 143 were exact.) Copies among others are held to stable's among others: on an
H200 that model copied exactly one by one, and 97 % of the words among 16.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from difflib import SequenceMatcher
from statistics import fmean

from ddtune.gate import chances
from ddtune.gate.model import Answer, CheckResult, Verdict

NAME = "verbatim_copy"
GROSS = 0.5
MEAN_MARGIN = 0.02
ERRORS = 3.0
ALPHA = 0.001
INEXACT_SHARE = 0.05
# Stable's mean under this is no copying at all: there is nothing to hold a candidate to, and stable is in doubt itself.
LEAST = 0.5


def fidelity(expect: str, answer: Answer) -> float:
    """The share of words in common and in order, 0 to 1; exactly 1 for a perfect copy."""
    wanted, got = expect.split(), _bare(answer.text).split()
    if wanted == got:
        return 1.0
    return min(0.999, SequenceMatcher(None, wanted, got, autojunk=False).ratio())


def judge(
    copies: Sequence[tuple[str, Answer]], stable: Sequence[float], name: str = NAME, *, errs: bool = False
) -> CheckResult:
    """The verdict for ``(expected text, answer)`` pairs against stable's fidelities.

    ``errs`` says that a sound model of this kind has inexact copies, also where none of stable's is.
    """
    came = [(expect, answer) for expect, answer in copies if answer.error is None]
    missing = len(copies) - len(came)
    scores = [fidelity(expect, answer) for expect, answer in came]
    if not stable:
        return _inconclusive(name, "stable made no copy to compare with")
    if scores:
        wrong = _wrong(scores, stable, errs)
        if wrong is not None:
            return CheckResult(name, Verdict.FAIL, wrong, cause="wrong_output")
    if missing:
        return _inconclusive(name, f"{missing} of {len(copies)} copies did not come back")
    exact = sum(score == 1 for score in scores)
    return CheckResult(name, Verdict.PASS, f"{exact} of {len(scores)} copies are exact")


def _wrong(scores: Sequence[float], stable: Sequence[float], errs: bool) -> str | None:
    own, differ = fmean(stable), errs or min(stable) < max(stable)
    if own < LEAST:
        return f"stable itself copies {own:.0%} of the words, which is no copying"
    gross = [score for score in scores if score < GROSS]
    if len(gross) > errs and min(stable) >= GROSS:
        return f"{len(gross)} of {len(scores)} copies have less than half of the text, the worst {min(gross):.0%}"
    if fmean(scores) < own - _margin(scores, stable, differ):
        return f"copies have {fmean(scores):.1%} of the words in place, stable's {own:.1%}"
    inexact = sum(score < 1 for score in scores)
    allowed = _allowed(len(scores), stable, differ)
    if inexact > allowed:
        return f"{inexact} of {len(scores)} copies are not exact, at most {allowed} are expected"
    return None


def _allowed(of: int, stable: Sequence[float], differ: bool) -> int:
    """How many of ``of`` copies may be inexact. Where some of stable's are, a few copies do not know their share."""
    own = sum(score < 1 for score in stable)
    if not own and not differ:
        return math.ceil(INEXACT_SHARE * of)
    # Agresti and Coull's share: two hits and two misses more than were seen.
    share = (own + 2) / (len(stable) + 4) + INEXACT_SHARE
    return chances.allowed(of, min(1.0, share), ALPHA)


def _margin(scores: Sequence[float], stable: Sequence[float], differ: bool) -> float:
    """How far the mean may lie under stable's. What stable never does is no noise, so its copies have to differ."""
    degrees = len(scores) + len(stable) - 2
    if not differ or degrees < 1:
        return MEAN_MARGIN
    squares = sum((score - fmean(part)) ** 2 for part in (scores, stable) for score in part)
    error = math.sqrt(squares / degrees * (1 / len(scores) + 1 / len(stable)))
    return max(MEAN_MARGIN, ERRORS * error)


def _bare(text: str) -> str:
    """The copy without a fence or the markers, which some models repeat as well."""
    bare = text.strip()
    for mark in ("```text", "```", "<text>"):
        bare = bare.removeprefix(mark).lstrip()
    for mark in ("```", "</text>"):
        bare = bare.removesuffix(mark).rstrip()
    return bare


def _inconclusive(name: str, text: str) -> CheckResult:
    return CheckResult(name, Verdict.INCONCLUSIVE, text, cause="gate_inconclusive")
