"""What a healthy engine answers: copies, Python functions, short facts, and otherwise plausible text."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ddtune.sim.engine.continuation import continuation
from ddtune.sim.engine.garbage import garbage
from ddtune.sim.engine.solutions import SOLUTIONS
from ddtune.sim.engine.vocabulary import dice, tokens

_COPY = re.compile(
    r"\b(repeat|copy|reproduce|write out)\b[^\n]{0,80}\b(exactly|verbatim|word for word)\b", re.IGNORECASE
)
_BY_EXAMPLE = re.compile(r"Text: ([^\n]*)\nRepeated:\s*$")
_MARKED = (
    re.compile(r"<(\w+)>\n?(?P<text>.*?)\n?</\1>", re.DOTALL),
    re.compile(r"<<<\n?(?P<text>.*?)\n?>>>", re.DOTALL),
    re.compile(r"```\w*\n(?P<text>.*?)\n?```", re.DOTALL),
    re.compile(r'"""\n?(?P<text>.*?)\n?"""', re.DOTALL),
    re.compile(r"\n([-=*#]{3,})[^\n]*\n(?P<text>.*?)\n\1", re.DOTALL),
    re.compile(r"\n(?:BEGIN|START)[^\n]*\n(?P<text>.*?)\n(?:END|STOP)", re.DOTALL),
)
_SUM = re.compile(r"(\d{1,6}) ?([+*x×-]) ?(\d{1,6})")
_FACTS = (
    ("capital of france", "The capital of France is Paris."),
    ("capital of germany", "The capital of Germany is Berlin."),
    ("capital of japan", "The capital of Japan is Tokyo."),
    ("capital of italy", "The capital of Italy is Rome."),
    ("capital of spain", "The capital of Spain is Madrid."),
    ("capital of egypt", "The capital of Egypt is Cairo."),
    ("largest planet", "The largest planet in the solar system is Jupiter."),
    ("boiling point of water", "At sea level, water boils at 100 degrees Celsius."),
    ("chemical symbol for gold", "The chemical symbol for gold is Au."),
    ("wrote hamlet", "Hamlet was written by William Shakespeare."),
    ("days are in a week", "There are seven days in a week."),
    ("seven days of the week", "Monday\nTuesday\nWednesday\nThursday\nFriday\nSaturday\nSunday"),
    (
        "months of the year",
        "January\nFebruary\nMarch\nApril\nMay\nJune\nJuly\nAugust\nSeptember\nOctober\nNovember\nDecember",
    ),
    ("colour of the sky", "On a clear day the sky is blue."),
    ("color of the sky", "On a clear day the sky is blue."),
    ("speed of light", "The speed of light in a vacuum is 299,792,458 metres per second."),
    (
        "ice floats",
        "When water freezes, its molecules settle into an open lattice that takes up more room than liquid water. "
        "The same mass therefore fills a larger volume, so ice is about nine percent less dense. A less dense body "
        "floats on a denser liquid, which is why ice stays on top.",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Written:
    """The tokens of an answer and whether it ended by itself (else it met the limit).

    ``other`` gives the same number of tokens with the near-tie at a position broken the other way; None where the
    margins are too wide for that.
    """

    tokens: list[str]
    ended: bool
    other: Callable[[int], tuple[str, ...]] | None = field(default=None, compare=False)


def answer(
    prompt: str, limit: int, *, output: str, seed: int, variant: str, endless: bool = False, salt: object = ""
) -> Written:
    """At most ``limit`` tokens for ``prompt``.

    ``output`` is right, garbage or wrong; ``variant`` names the engine's numerics; ``endless`` goes on past the
    natural end; ``salt`` tells sampled runs of one prompt apart.
    """
    if output == "garbage":
        made = garbage(prompt, seed, limit)
        return Written(made, not made)
    text = _known(prompt)
    if text is None:
        made, ended = continuation(prompt, limit, variant, endless, salt)
        if output == "right":
            return Written(made, ended, partial(_other, prompt, len(made), variant, salt))
    else:
        made = tokens(text)
        if endless and len(made) < limit:
            made += continuation(prompt, limit - len(made), variant, True, salt)[0]
        made, ended = made[:limit], len(made) < limit and not endless
    return Written(_spoil(made, prompt) if output == "wrong" else made, ended)


def _other(prompt: str, length: int, variant: str, salt: object, flip: int) -> tuple[str, ...]:
    return tuple(continuation(prompt, length, variant, True, salt, flip)[0])


def _known(prompt: str) -> str | None:
    """The fixed answer to a prompt that has one."""
    return _copied(prompt) or _solved(prompt) or _fact(prompt)


def _copied(prompt: str) -> str | None:
    by_example = _BY_EXAMPLE.search(prompt)
    if by_example:
        return f" {by_example.group(1)}\n"
    asked = _COPY.search(prompt)
    if not asked:
        return None
    rest = prompt[asked.end() :]
    for marked in _MARKED:
        found = marked.search(rest)
        if found:
            return found.group("text")
    after = re.search(r"[:\n]\s*(?P<text>.*)", rest, re.DOTALL)
    return after.group("text").strip() if after else None


def _solved(prompt: str) -> str | None:
    asked = re.search(r"\bdef (\w+)\(", prompt)
    if asked and asked[1] in SOLUTIONS and "python" in prompt.lower():
        return f"```python\n{SOLUTIONS[asked[1]].strip()}\n```\n"
    for name, code in SOLUTIONS.items():
        if re.search(rf"\b{name}\b", prompt) and ("python" in prompt.lower() or f"def {name}" in prompt):
            return f"```python\n{code.strip()}\n```\n"
    return None


def _fact(prompt: str) -> str | None:
    lowered = prompt[-400:].lower()
    for key, fact in _FACTS:
        if key in lowered:
            return fact
    sums = list(_SUM.finditer(lowered)) if re.search("what is|compute|calculate", lowered) else []
    if not sums:
        return None
    found = sums[-1]
    left, sign, right = int(found.group(1)), found.group(2), int(found.group(3))
    value = left + right if sign == "+" else left - right if sign == "-" else left * right
    return f"{left} {sign} {right} = {value}"


def _spoil(made: list[str], prompt: str) -> list[str]:
    """Fluent and wrong: here and there another word of the same answer stands in."""
    rng = random.Random(dice("spoil", prompt))
    words = [token for token in made if token.strip().isalnum()] or made
    return [rng.choice(words) if token.strip().isalnum() and rng.random() < 0.15 else token for token in made]
