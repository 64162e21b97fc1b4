"""Signs of a broken decode in one answer, whatever was asked.

Each detector is a pure function of a probe and its answer that says what it saw, or None. They are tuned to be silent
on healthy prose, code, tables, lists, numbers and other languages that the prompt speaks; what a detector says of
stable's own answers is a quirk of the model and is not held against a candidate.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from ddtune.gate import signs
from ddtune.gate.coding import code_block
from ddtune.gate.model import Answer, CheckResult, Verdict
from ddtune.gate.probe import Probe
from ddtune.gate.scripts import unexpected

NAME = "detectors"
# A sound model, too, loops now and then when it goes on with a text greedily: one such answer is not a sign.
SOFT = frozenset({"loop", "compressibility", "doubled_words", "salad"})
HEALTHY_ENDS = frozenset({"stop", "length", "eos", "tool_calls"})

# ``python -m tests.benchmarks.detectors`` shows each limit between healthy and broken text of its own.
TOKEN_RUN, CHARACTER_RUN, RULE_RUN, WORD_RUN, FIGURE_RUN = 32, 32, 160, 6, 24
SPECIALS, SPECIAL_SHARE = 3, 0.5
LOOP_TIMES, LOOP_WORDS, LOOP_FIGURES, LOOP_SHARE = 4, 24, 150, 0.3
LEAST_BYTES, LEAST_COMPRESSED, MOST_COMPRESSED = 400, 0.1, 0.82
LETTERS, SCRIPTS = 4, 3
DOUBLES, FEW_DOUBLES, FEW_WORDS = 3, 2, 120
FUNCTION_SHARE, GRAMMAR_WORDS = 0.1, 30


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
    found = signs.specials(text)
    share = sum(map(len, found)) / max(1, len(text))
    if len(found) >= SPECIALS or (found and share > SPECIAL_SHARE):
        return f"{len(found)} special tokens such as {found[0]}"
    return None


def repeated_token(_probe: Probe, answer: Answer) -> str | None:
    """One token, character or word over and over."""
    ids = answer.token_ids
    run, _ = signs.longest_run(ids)
    if run >= TOKEN_RUN or (len(ids) >= TOKEN_RUN / 2 and run > len(ids) / 2):
        return f"one token {run} times in a row"
    text = _text(answer)
    for (run, char), most in zip(signs.character_runs(text), (CHARACTER_RUN, RULE_RUN), strict=True):
        if run >= most:
            return f"the character {char!r} {run} times in a row"
    for (run, word), most in zip(signs.word_runs(text), (WORD_RUN, FIGURE_RUN), strict=True):
        if run >= most:
            return f"{word[:20]!r} {run} times in a row"
    return None


def loop(_probe: Probe, answer: Answer) -> str | None:
    """The end of the answer is a phrase or paragraph repeated four times and more."""
    words = _text(answer).split()
    for period, length in signs.loops(words):
        # Rows of figures repeat themselves by right, to a point.
        lettered = any(char.isalpha() for word in words[-period:] for char in word)
        least = max(LOOP_TIMES * period, LOOP_WORDS if lettered else LOOP_FIGURES)
        if length >= least and length > LOOP_SHARE * len(words):
            phrase = " ".join(words[-period:][:6])
            return f"the end repeats {phrase!r} {length // period} times"
    return None


def compressibility(_probe: Probe, answer: Answer) -> str | None:
    """Far more regular, or far more random, than any text that was asked for."""
    text = _text(answer)
    if len(text.encode("utf-8", "surrogatepass")) < LEAST_BYTES:
        return None
    ratio = signs.compressed(text)
    if ratio < LEAST_COMPRESSED:
        return f"the text compresses to {ratio:.0%}"
    if ratio > MOST_COMPRESSED:
        return f"the text does not compress ({ratio:.0%})"
    return None


def scripts(probe: Probe, answer: Answer) -> str | None:
    """Letters of scripts that neither the prompt uses nor anybody would expect."""
    found = unexpected(_text(answer), probe.prompt)
    total = sum(found.values())
    if total >= LETTERS or len(found) >= SCRIPTS:
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
    text = _text(answer)
    # Code and data say `int int` and `null null` by right.
    if probe.kind in {"code", "data"} or "```" in text:
        return None
    doubles, words = signs.doubled(text)
    if len(doubles) >= DOUBLES or (len(doubles) >= FEW_DOUBLES and words < FEW_WORDS):
        return f"{len(doubles)} words doubled, such as {doubles[0]!r}"
    return None


def salad(probe: Probe, answer: Answer) -> str | None:
    """Words of a language without its grammar, where running English was asked for."""
    share, words = signs.function_share(answer.text)
    if probe.kind != "prose" or words < GRAMMAR_WORDS:
        return None
    return f"only {share:.0%} of the words hold sentences together" if share < FUNCTION_SHARE else None


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
