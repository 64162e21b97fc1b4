"""Signs of a broken decode in one answer, whatever was asked.

Each detector is a pure function of a probe and its answer that says what it saw, or None. They are tuned to be silent
on healthy prose, code, tables, lists, numbers and other languages that the prompt speaks; what a detector says of
stable's own answers is a quirk of the model and is not held against a candidate.
"""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from ddtune.gate.coding import code_block
from ddtune.gate.model import Answer, CheckResult, Verdict
from ddtune.gate.probe import Probe
from ddtune.gate.scripts import unexpected

NAME = "detectors"
# A sound model, too, loops now and then when it goes on with a text greedily: one such answer is not a sign.
SOFT = frozenset({"loop", "compressibility", "doubled_words", "salad"})
HEALTHY_ENDS = frozenset({"stop", "length", "eos", "tool_calls"})

_SPECIAL = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|<｜[^｜<>\n]{1,40}｜>|</?s>|<unk>|<pad>|\[(?:PAD|UNK|CLS|SEP)\]|<0x[0-9A-F]{2}>"
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_RUN = re.compile(r"(.)\1{31,}", re.DOTALL)
_RULES = frozenset("-=_*#~.|+ \t\n─━═·")
# English in running text: under a tenth of these is a salad of words. Healthy prose has three to five tenths.
_FUNCTION_WORDS = """
    a about after all also an and are as at be been before but by can could do each for from had has have he her
    his how i if in into is it its like may more most must no not of on one or other our out over she should so
    some such than that the their them then there these they this those through to under up was we were what when
    where which while who will with would you your
"""
_DOUBLED_BY_RIGHT = """
    that had very so no ha bye knock there now do is blah well yes long never many
"""
_FUNCTION = frozenset(_FUNCTION_WORDS.split())
_LEGAL_DOUBLES = frozenset(_DOUBLED_BY_RIGHT.split())


@dataclass(frozen=True)
class Finding:
    """What one detector saw in one answer."""

    detector: str
    text: str


def empty(_probe: Probe, answer: Answer) -> str | None:
    """Neither text nor reasoning."""
    return None if answer.text.strip() or answer.reasoning.strip() else "an empty answer"


def special_tokens(_probe: Probe, answer: Answer) -> str | None:
    """Special tokens as text, several or most of a short answer."""
    text = _text(answer)
    found = _SPECIAL.findall(text)
    share = sum(map(len, found)) / max(1, len(text))
    if len(found) >= 3 or (found and share > 0.5):
        return f"{len(found)} special tokens such as {found[0]}"
    return None


def repeated_token(_probe: Probe, answer: Answer) -> str | None:
    """One token, character or word over and over."""
    ids = answer.token_ids
    run = _longest_run(ids)
    if run >= 32 or (len(ids) >= 16 and run > len(ids) / 2):
        return f"one token {run} times in a row"
    text = _text(answer)
    for run_of in _RUN.finditer(text):
        char, count = run_of[1], len(run_of[0])
        if char not in _RULES or count >= 160:
            return f"the character {char!r} {count} times in a row"
    for word, group in groupby(text.split()):
        count = sum(1 for _ in group)
        if count >= (6 if _WORD.fullmatch(word) else 24):
            return f"{word[:20]!r} {count} times in a row"
    return None


def loop(_probe: Probe, answer: Answer) -> str | None:
    """The end of the answer is a phrase or paragraph repeated four times and more."""
    words = _text(answer).split()
    for period in range(1, min(60, len(words) // 4) + 1):
        length = period
        while length < len(words) and words[-1 - length] == words[-1 - length + period]:
            length += 1
        # Rows of figures repeat themselves by right, to a point.
        least = 24 if any(char.isalpha() for word in words[-period:] for char in word) else 150
        if length >= max(4 * period, least) and length > 0.3 * len(words):
            phrase = " ".join(words[-period:][:6])
            return f"the end repeats {phrase!r} {length // period} times"
    return None


def compressibility(_probe: Probe, answer: Answer) -> str | None:
    """Far more regular, or far more random, than any text that was asked for."""
    raw = _text(answer).encode()
    if len(raw) < 400:
        return None
    ratio = len(zlib.compress(raw, 9)) / len(raw)
    if ratio < 0.1:
        return f"the text compresses to {ratio:.0%}"
    if ratio > 0.82:
        return f"the text does not compress ({ratio:.0%})"
    return None


def scripts(probe: Probe, answer: Answer) -> str | None:
    """Letters of scripts that neither the prompt uses nor anybody would expect."""
    found = unexpected(_text(answer), probe.prompt)
    total = sum(found.values())
    if total >= 4 or len(found) >= 3:
        names = ", ".join(sorted(found))
        return f"{total} letters of unexpected script ({names})"
    return None


def replacement(_probe: Probe, answer: Answer) -> str | None:
    """Replacement and control characters; a cut character at a cut end is none."""
    text = _text(answer)
    if answer.finish_reason == "length":
        text = text.rstrip("\ufffd")
    count = text.count("\ufffd")
    if count:
        return f"{count} replacement characters"
    control = sum(1 for char in text if (char < " " and char not in "\n\t\r\f") or "\x7f" <= char <= "\x9f")
    return f"{control} control characters" if control else None


def doubled_words(probe: Probe, answer: Answer) -> str | None:
    """Words twice in a row, more often than people do."""
    tokens = re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)?|[^\w\s]|\n", _text(answer))
    doubles = [
        one
        for one, two in pairwise(tokens)
        # Names are doubled by right (Walla Walla), so capitals do not count.
        if len(one) > 1 and one == two and one[0].isalpha() and not one[0].isupper() and one not in _LEGAL_DOUBLES
    ]
    words = sum(1 for token in tokens if token[0].isalpha())
    # Code and data say `int int` and `null null` by right.
    if probe.kind in {"code", "data"} or "```" in _text(answer):
        return None
    if len(doubles) >= 3 or (len(doubles) == 2 and words < 120):
        return f"{len(doubles)} words doubled, such as {doubles[0]!r}"
    return None


def salad(probe: Probe, answer: Answer) -> str | None:
    """Words of a language without its grammar, where running English was asked for."""
    words = _WORD.findall(answer.text)
    if probe.kind != "prose" or len(words) < 30:
        return None
    share = sum(word.lower() in _FUNCTION for word in words) / len(words)
    return f"only {share:.0%} of the words hold sentences together" if share < 0.1 else None


def broken_code(probe: Probe, answer: Answer) -> str | None:
    """A finished Python block that does not parse, where code was asked for."""
    if probe.family != "code" or answer.finish_reason == "length":
        return None
    code = code_block(answer.text)
    if code is None:
        return None
    try:
        ast.parse(code)
    except (SyntaxError, ValueError) as error:
        return f"its code does not parse: {error.args[0] if error.args else 'invalid'}"
    except (RecursionError, MemoryError):
        return "its code is nested too deep to parse"
    return None


def finish(_probe: Probe, answer: Answer) -> str | None:
    """An end that no healthy generation has."""
    if answer.finish_reason in HEALTHY_ENDS:
        return None
    return f"the answer ended by {answer.finish_reason or 'nothing that was said'}"


def inner_error(_probe: Probe, answer: Answer) -> str | None:
    """An error message in the place of text."""
    text = answer.text.lstrip()
    if answer.error_kind == "body":
        return f"an error inside a good answer: {answer.error}"
    if re.match(r'\{\s*"(?:error|object"\s*:\s*"error)"', text) or text.startswith("Internal Server Error"):
        return "an error message as text"
    return None


DETECTORS: tuple[tuple[str, Callable[[Probe, Answer], str | None]], ...] = (
    ("inner_error", inner_error),
    ("empty", empty),
    ("special_tokens", special_tokens),
    ("repeated_token", repeated_token),
    ("loop", loop),
    ("replacement", replacement),
    ("scripts", scripts),
    ("compressibility", compressibility),
    ("doubled_words", doubled_words),
    ("salad", salad),
    ("broken_code", broken_code),
    ("finish", finish),
)


def findings(probe: Probe, answer: Answer, quirks: Collection[tuple[str, str]] = ()) -> list[Finding]:
    """All findings in one answer; answers that did not come have none but an error inside a good one."""
    if answer.error is not None and answer.error_kind != "body":
        return []
    out = []
    for name, detector in DETECTORS if answer.error is None else DETECTORS[:1]:
        if (probe.family, name) in quirks:
            continue
        text = detector(probe, answer)
        if text is not None:
            out.append(Finding(name, text))
    return out


def quirks(probes: Iterable[Probe], answers: Iterable[Answer]) -> frozenset[tuple[str, str]]:
    """What fires on stable itself, as ``(family, detector)``."""
    asked = {probe.id: probe for probe in probes}
    return frozenset(
        (asked[answer.id].family, finding.detector)
        for answer in answers
        for finding in findings(asked[answer.id], answer)
    )


def judge(pairs: Sequence[tuple[Probe, Answer]], quirks: Collection[tuple[str, str]]) -> CheckResult:
    """The verdict over all answers of a stage.

    One finding is enough, but for a ``SOFT`` one in a continuation and any in an answer that was sampled, which take
    two answers. A missing answer makes it inconclusive.
    """
    found = [(probe, finding) for probe, answer in pairs for finding in findings(probe, answer, quirks)]
    hard = [one for one in found if _hard(*one)]
    if hard or len({probe.id for probe, _ in found}) > 1:
        found = hard or found
        hit = len({probe.id for probe, _ in found})
        return CheckResult(
            NAME, Verdict.FAIL, f"{found[0][1].text} ({hit} of {len(pairs)} answers)", cause="garbage_output"
        )
    missing = sum(answer.error is not None for _, answer in pairs)
    if missing or not pairs:
        return CheckResult(
            NAME,
            Verdict.INCONCLUSIVE,
            f"{missing} of {len(pairs)} answers did not come back",
            cause="gate_inconclusive",
        )
    cut = sum(answer.finish_reason == "length" for _, answer in pairs)
    return CheckResult(NAME, Verdict.PASS, f"{len(pairs)} answers read ({cut} ended at their limit), nothing found")


def _hard(probe: Probe, finding: Finding) -> bool:
    return probe.family != "sampled" and (finding.detector not in SOFT or probe.family != "continue")


def _text(answer: Answer) -> str:
    return f"{answer.reasoning}\n{answer.text}" if answer.reasoning else answer.text


def _longest_run(items: Sequence[int]) -> int:
    return max((sum(1 for _ in group) for _, group in groupby(items)), default=0)
