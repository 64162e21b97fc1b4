"""Log lines: pure drawing of the part that is seen."""

from __future__ import annotations

import re
from collections.abc import Sequence

from textual.content import Content

from ddtune.engine.log import body_of
from ddtune.engine.model import LogLine
from ddtune.tui import words

STYLES = {"error": words.BAD, "warning": words.WARN}
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


def matching(log: Sequence[LogLine], wanted: str) -> list[LogLine]:
    """Lines that hold a text, in any case; ``error`` and ``warning`` also find lines of that severity."""
    if not wanted:
        return list(log)
    needle = wanted.casefold()
    return [one for one in log if needle in one.text.casefold() or needle == one.severity]


def lines(log: Sequence[LogLine], width: int, height: int, back: int = 0) -> list[Content]:
    """The last ``height`` lines, or those that many lines further back."""
    end = max(0, len(log) - back)
    return [one_line(entry, width) for entry in log[max(0, end - height) : end]]


def one_line(entry: LogLine, width: int) -> Content:
    """One entry on one line: time, severity, rank and text."""
    style = STYLES.get(entry.severity, "")
    source = "kernel " if entry.source == "kernel" else ""
    text = _short(entry) if width < RAW_WIDTH else ""
    shown = words.line(
        (f" {words.clock(entry.at)} ", words.MUTED),
        (f"{MARKS.get(entry.severity, ' ')} ", f"bold {style}"),
        (f"{words.safe(entry.rank)} " if entry.rank else "", "bold"),
        (source + (text or words.safe(body_of(entry))), style),
    )
    return words.fit(shown, width)


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
