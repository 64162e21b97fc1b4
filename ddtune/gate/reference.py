"""Whose continuations a candidate is held to, and what a place where two texts part says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from ddtune.gate.model import Answer

# Nats between the two likeliest tokens up to which the last bits decide: bfloat16 logits near 16 are an eighth apart,
# and a tree's verify sums in another order than a decode of one row.
NEAR_TIE = 0.5
# An identical answer counts at least this much, however short.
IDENTICAL = 32


@dataclass(frozen=True)
class Reference:
    """Answers by request id, further answers of the same engine to the same prompts, and whose they are.

    ``said`` ends a sentence: "stable, asked just before". ``nonce`` stands in the prompts.
    """

    nonce: str
    answers: Mapping[str, Answer] = field(default_factory=dict)
    again: Mapping[str, tuple[Answer, ...]] = field(default_factory=dict)
    said: str = "stable, asked just before"

    @property
    def has_margins(self) -> bool:
        """Whether the build told the gaps between its likeliest tokens."""
        return any(answer.gaps for answer in self.answers.values())

    def own(self) -> tuple[float | None, int, int]:
        """Median agreement with itself in tokens (None without a second run), and suspects of how many second runs."""
        pairs = [
            (self.answers[name], other)
            for name, others in self.again.items()
            if usable(self.answers.get(name))
            for other in others
            if usable(other)
        ]
        if not pairs:
            return None, 0, 0
        suspects = sum(suspicious(first, other) for first, other in pairs)
        return median(agreed(first, other) for first, other in pairs), suspects, len(pairs)


def usable(answer: Answer | None) -> bool:
    """Whether there is an answer at all."""
    return answer is not None and answer.error is None


def parting(first: Answer, second: Answer) -> int | None:
    """The first position (token, or word where there are no ids) at which two answers differ; None where none does.

    An answer that was cut at its limit says nothing of what lies behind.
    """
    left, right = _units(first, second)
    for at, (one, two) in enumerate(zip(left, right, strict=False)):
        if one != two:
            return at
    shorter, other = (first, left) if len(left) < len(right) else (second, right)
    if len(left) == len(right) or shorter.finish_reason == "length":
        return None
    return len(other)


def agreed(first: Answer, second: Answer) -> int:
    """How many tokens (or words) two answers have in common from the start; identical ones count at least 32."""
    at = parting(first, second)
    return max(min(map(len, _units(first, second))), IDENTICAL) if at is None else at


def suspicious(reference: Answer, other: Answer) -> bool:
    """Whether ``other`` parts where ``reference`` was sure, or with a token that was not its second choice."""
    at = parting(reference, other)
    if at is None or at >= len(reference.gaps) or not other.token_ids:
        return False
    token = other.token_ids[at] if at < len(other.token_ids) else None
    return reference.gaps[at] > NEAR_TIE or token != reference.runners_up[at]


def _units(first: Answer, second: Answer) -> tuple[Sequence[object], Sequence[object]]:
    if first.token_ids and second.token_ids:
        return first.token_ids, second.token_ids
    return first.text.split(), second.text.split()
