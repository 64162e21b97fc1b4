"""Which writing systems a text uses."""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import lru_cache

_NAMES = {
    "LATIN": "Latin",
    "CJK": "Han",
    "HIRAGANA": "Kana",
    "KATAKANA": "Kana",
    "KATAKANA-HIRAGANA": "Kana",
    "HANGUL": "Hangul",
    "GREEK": "Greek",
    "CYRILLIC": "Cyrillic",
}
# Latin is in every answer (names, units, code), Greek letters are mathematics.
_COMMON = frozenset({"Latin", "Greek"})
_NO_SCRIPT = frozenset(
    {
        "MODIFIER",
        "FEMININE",
        "MASCULINE",
        "MICRO",
        "SUPERSCRIPT",
        "SUBSCRIPT",
        "FULLWIDTH",
        "DOUBLE-STRUCK",
        "MATHEMATICAL",
        "SCRIPT",
        "OHM",
        "KELVIN",
        "ANGSTROM",
        "BLACK-LETTER",
        "ROMAN",
    }
)


@lru_cache(maxsize=4096)
def script(char: str) -> str | None:
    """The script of one letter, None for digits, marks, signs and letters of no script."""
    if not char.isalpha():
        return None
    word = unicodedata.name(char, "UNNAMED").split()[0]
    return None if word in _NO_SCRIPT else _NAMES.get(word, word.title())


def scripts(text: str) -> Counter[str]:
    """Letters by script."""
    return Counter(name for name in map(script, text) if name is not None)


def unexpected(text: str, prompt: str) -> Counter[str]:
    """Letters of scripts that the prompt does not use; a prompt in Han may be answered in Kana's and Han's company."""
    if text.isascii():
        return Counter()
    allowed = _COMMON | set(scripts(prompt))
    return Counter({name: count for name, count in scripts(text).items() if name not in allowed})
