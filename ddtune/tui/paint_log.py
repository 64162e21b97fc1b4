"""Log lines: pure drawing of the part that is seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from textual.content import Content

from ddtune.engine.log import body_of
from ddtune.engine.model import LogLine
from ddtune.tui import words

STYLES = {"error": words.BAD, "warning": words.WARN}
SEVERITIES = {"all": ("info", "warning", "error"), "warnings": ("warning", "error"), "errors": ("error",)}
"""What is shown at each step of the severity filter."""
RANK_STYLES = ("$primary", "$success", "$accent", "$warning", "$secondary", "$error", "$foreground", "$muted")
UNREADABLE = "no permission to read the {} journal with this login: root adds it to the group systemd-journal"
MARKS = {"error": "E", "warning": "W"}
RAW_WIDTH = 150
_DECODE = (
    ("running", "#running-req"),
    ("accept", "accept len"),
    ("graph", "cuda graph"),
    ("tok/s", "gen throughput (token/s)"),
    ("queue", "#queue-req"),
)
_ACCESS = re.compile(r'"(?:GET|POST) [^"]*" 200\b')
_PREFILL = (("new", "#new-seq"), ("tokens", "#new-token"), ("cached", "#cached-token"), ("queue", "#queue-req"))


def telling(log: Sequence[LogLine]) -> list[LogLine]:
    """Without the access lines of requests that went well, which would push everything else off a small panel."""
    return [one for one in log if not _ACCESS.search(one.text)]


def matching(log: Sequence[LogLine], wanted: str, severity: str = "all") -> list[LogLine]:
    """Lines that hold a text, in any case, of a severity; ``error`` and ``warning`` also find lines of that severity.

    Where lines are missing stays marked whatever is looked for.
    """
    needle, shown = wanted.casefold(), SEVERITIES[severity]
    return [
        one
        for one in log
        if one.kind == "gap"
        or (one.severity in shown and (not needle or needle in one.text.casefold() or needle == one.severity))
    ]


def below(log: Sequence[LogLine], line: LogLine) -> int:
    """How many entries of ``log`` come after ``line``, or after its time where it is not among them any more.

    The entry of a trace grows where it stands; that of a flood moves to the end with each line that it counts.
    """
    place = (line.at, line.cursor, line.text)
    same = next((back for back, one in enumerate(reversed(log)) if (one.at, one.cursor, one.text) == place), None)
    if same is not None:
        return same
    return next((back for back, one in enumerate(reversed(log)) if one.at <= line.at), len(log))


def lines(log: Sequence[LogLine], width: int, height: int, back: int = 0, *, whole: bool = False) -> list[Content]:
    """The last ``height`` lines, or those that many entries further back; ``whole`` folds long ones."""
    rows: list[Content] = []
    for entry in reversed(log[: max(0, len(log) - back)]):
        if len(rows) >= height:
            break
        rows = [*(_folded(entry, width) if whole else [one_line(entry, width)]), *rows]
    return rows[-height:]


def unreadable(sources: Iterable[str], width: int) -> list[Content]:
    """A sentence for each journal that may not be read."""
    return [row for one in sorted(sources) for row in words.folded("", UNREADABLE.format(one), width, words.WARN, 1)]


@lru_cache(1024)
def one_line(entry: LogLine, width: int) -> Content:
    """One entry on one line: time, severity, rank, text, and how many lines it stands for."""
    if entry.kind == "gap":
        return words.fit(words.line((f" {words.clock(entry.at)} ┄┄ {words.safe(entry.text)} ┄┄", words.WARN)), width)
    more = _more(entry)
    shown = words.line(*_head(entry), (_text(entry, width), STYLES.get(entry.severity, "")))
    return words.fit(words.line(words.fit(shown, width - len(more)), (more, words.MUTED)), width)


def _folded(entry: LogLine, width: int) -> list[Content]:
    """One entry in as many lines as it needs."""
    head = words.line(*_head(entry))
    if entry.kind == "gap" or head.cell_length > width - 20:
        return [one_line(entry, width)]
    style = STYLES.get(entry.severity, "")
    text = _source(entry) + words.safe(body_of(entry)) + _more(entry)
    rows = words.wrapped(text, width - head.cell_length)
    return [words.line(head if not number else " " * head.cell_length, (row, style)) for number, row in enumerate(rows)]


def _head(entry: LogLine) -> list[words.Part]:
    rank = f"{words.safe(entry.rank)} " if entry.rank else ""
    digits = re.search(r"\d+(?=\D*$)", rank)
    colour = RANK_STYLES[int(digits[0]) % len(RANK_STYLES)] if digits else ""
    return [
        (f" {words.clock(entry.at)} ", words.MUTED),
        (f"{MARKS.get(entry.severity, ' ')} ", f"bold {STYLES.get(entry.severity, '')}"),
        (rank, f"bold {colour}"),
    ]


def _text(entry: LogLine, width: int) -> str:
    short = _short(entry) if width < RAW_WIDTH else ""
    return _source(entry) + (short or words.safe(body_of(entry)))


def _source(entry: LogLine) -> str:
    return "kernel " if entry.source == "kernel" else ""


def _more(entry: LogLine) -> str:
    """How many lines of a flood, or of a trace, it stands for."""
    many = f" ×{entry.count}" if entry.count > 1 else ""
    return many + (f" (+{entry.folded} lines of trace)" if entry.folded else "")


def _short(entry: LogLine) -> str:
    """The numbers that matter of a decode or prefill line, which is longer than most screens."""
    wanted = {"decode": _DECODE, "prefill": _PREFILL}.get(entry.kind)
    if wanted is None:
        return ""
    known = dict(entry.fields)
    parts = [f"{name} {_value(known[field])}" for name, field in wanted if field in known]
    return f"{entry.kind:<7} " + "  ".join(parts) if parts else ""


def _value(text: str) -> str:
    """A field as short as it may be."""
    if text in ("True", "False"):
        return "yes" if text == "True" else "no"
    try:
        return text if "." not in text or float(text) < 100 else words.number(float(text))
    except ValueError:
        return words.safe(text)
