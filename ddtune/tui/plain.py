"""The screen in signs that every terminal has: for ``--ascii``."""

from __future__ import annotations

from functools import lru_cache

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_SIGNS = {
    **dict.fromkeys("─━┄┅┈╌╍═╴╶╸╺▔⎺", "-"),
    **dict.fromkeys("│┃┆┊╎║╷╵╽╿▏▎▕▐┇┋", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯╒╕╘╛╔╗╚╝┏┓┗┛┣┫┳┻╋╟╢", "+"),
    **dict.fromkeys("█▉▊▋▌▆▇▅▄▍", "#"),
    **dict.fromkeys("▁▂▃▀", "_"),
    **dict.fromkeys("·∙•⋅", "."),
    "…": "~",
    "×": "x",
    "→": ">",
    "←": "<",
    "▸": ">",
    "▶": ">",
    "◀": "<",
    "✓": "v",
    "✗": "x",
    "↩": "<",
    "●": "*",
    "○": "o",
    "—": "-",
    "–": "-",
    "Σ": "S",
    "°": "'",
    "µ": "u",
    "▲": "^",
    "◆": "*",
    "▼": "v",
    "↑": "^",
    "↓": "v",
    "■": "#",
    "□": "o",
    "⚠": "!",
    "≤": "<",
    "≥": ">",
    "±": "~",
    "“": '"',
    "”": '"',
    "’": "'",
}
_BRAILLE = range(0x2800, 0x2900)


def _dots(pattern: int) -> str:
    """A sign with its ink where a cell of braille has it: above, in the middle, below, or nearly everywhere."""
    rows = [pattern & mask for mask in (0b00001001, 0b00010010, 0b00100100, 0b11000000)]
    if not any(rows):
        return " "
    if sum(map(bool, rows)) >= 3:
        return "#" if pattern.bit_count() >= 6 else ":"
    top, bottom = any(rows[:2]), any(rows[2:])
    return "-" if top and bottom else ("'" if top else ".")


_TABLE = str.maketrans({**_SIGNS, **{chr(code): _dots(code - _BRAILLE.start) for code in _BRAILLE}})


@lru_cache(4096)
def plain(text: str) -> str:
    """``text`` in ASCII, each sign as wide as before; letters of other scripts stay."""
    return text if text.isascii() else text.translate(_TABLE)


class PlainFilter(LineFilter):
    """Draws each line in ASCII, whatever the widgets meant to draw."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments with other signs."""
        del background
        return [segment._replace(text=plain(segment.text)) for segment in segments]
