"""Numbers that healthy and broken text differ in; what is too much of them is for the detectors to say."""

from __future__ import annotations

import re
import zlib
from collections.abc import Hashable, Iterable, Sequence
from itertools import groupby, pairwise

_SPECIAL = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|<｜[^｜<>\n]{1,40}｜>|</?s>|<unk>|<pad>|\[(?:PAD|UNK|CLS|SEP)\]|<0x[0-9A-F]{2}>"
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|[^\w\s]|\n")
# What lines are ruled with.
_RULES = frozenset("-=_*#~.|+/ \t\n─━═·")
_MOST_PERIOD = 60
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


def longest_run(items: Iterable[Hashable]) -> tuple[int, Hashable]:
    """How often one item comes in a row at most, and which."""
    return max(
        ((sum(1 for _ in group), item) for item, group in groupby(items)), key=lambda run: run[0], default=(0, "")
    )


def character_runs(text: str) -> tuple[tuple[int, str], tuple[int, str]]:
    """The longest run of one character: of those that no line is ruled with, and of those."""
    runs = [(sum(1 for _ in group), char) for char, group in groupby(text)]
    return (
        max((run for run in runs if run[1] not in _RULES), default=(0, "")),
        max((run for run in runs if run[1] in _RULES), default=(0, "")),
    )


def word_runs(text: str) -> tuple[tuple[int, str], tuple[int, str]]:
    """The longest run of one word: of letters, and of anything else."""
    runs = [(sum(1 for _ in group), word) for word, group in groupby(text.split())]
    return (
        max((run for run in runs if _WORD.fullmatch(run[1])), default=(0, "")),
        max((run for run in runs if not _WORD.fullmatch(run[1])), default=(0, "")),
    )


def specials(text: str) -> list[str]:
    """Special tokens that stand in the text."""
    return _SPECIAL.findall(text)


def loops(words: Sequence[str]) -> Iterable[tuple[int, int]]:
    """By period, the number of words at the end that repeat those a period before, the first period with them."""
    for period in range(1, min(_MOST_PERIOD, len(words) // 4) + 1):
        length = period
        while length < len(words) and words[-1 - length] == words[-1 - length + period]:
            length += 1
        yield period, length


def compressed(text: str) -> float:
    """The size that zlib leaves of the text, as a share of it."""
    raw = text.encode("utf-8", "surrogatepass")
    return len(zlib.compress(raw, 9)) / max(1, len(raw))


def doubled(text: str) -> tuple[list[str], int]:
    """Words that come twice in a row as nobody writes them, and the number of all words.

    Names are doubled by right (Walla Walla), so capitals do not count.
    """
    tokens = _TOKEN.findall(text)
    twice = [
        one
        for one, two in pairwise(tokens)
        if len(one) > 1 and one == two and one[0].isalpha() and not one[0].isupper() and one not in _LEGAL_DOUBLES
    ]
    return twice, sum(1 for token in tokens if token[0].isalpha())


def function_share(text: str) -> tuple[float, int]:
    """The share of words that hold English sentences together, and the number of all words."""
    words = _WORD.findall(text)
    return sum(word.lower() in _FUNCTION for word in words) / max(1, len(words)), len(words)
