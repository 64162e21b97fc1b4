"""Values as the screen writes them; what is not available is a dash."""

from __future__ import annotations

import re
import time

from textual.content import Content

from ddtune.engine.log import sanitise

NONE = "—"
INF = float("inf")

GOOD = "$success"
WARN = "$warning"
BAD = "$error"
NOTE = "$accent"
MUTED = "$muted"
LOUD = "bold $loud-foreground on $loud"
BUSY = "bold $busy-foreground on $busy"

Part = str | tuple[str, str] | Content


def line(*parts: Part) -> Content:
    """One line of parts; text is never read as markup."""
    return Content.assemble(*parts)


def number(value: float | None, digits: int = 0) -> str:
    """A number with thin groups of thousands."""
    return NONE if value is None else f"{value:,.{digits}f}".replace(",", " ")


def short(value: float, digits: int = 0) -> str:
    """A number in five cells at most."""
    return number(value, digits) if value < 10_000 else f"{value / 1000:.0f}k"


def percent(share: float | None) -> str:
    """A share of 1 in percent."""
    return NONE if share is None else f"{100 * share:.0f} %"


def safe(text: object) -> str:
    """Text from a host with nothing in it that a terminal would act on."""
    return sanitise(str(text))


def word(value: object) -> str:
    """A word from a host made safe, or a dash."""
    return safe(value) if value else NONE


def age(seconds: float | None) -> str:
    """An age in the largest unit that keeps it short."""
    if seconds is None:
        return NONE
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} d"


def span(seconds: float | None) -> str:
    """A time that runs down, to the second."""
    if seconds is None:
        return NONE
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def minutes(seconds: float) -> str:
    """A place in a recording, as minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def clock(at: float) -> str:
    """Time of day of seconds since the epoch, in the operator's zone."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def day(at: float) -> str:
    """Date and time of day of seconds since the epoch, in the operator's zone."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def bar(value: float | None, limit: float | None, width: int) -> str:
    """A bar of eighths with a dotted rest; clamped in drawing only."""
    if value is None or not limit or width < 1:
        return "·" * max(0, width)
    eighths = round(8 * width * min(1.0, max(0.0, value / limit)))
    full, part = divmod(eighths, 8)
    drawn = "█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")
    return drawn + "·" * (width - len(drawn))


def clip(text: str, width: int) -> str:
    """Text cut to a width in cells, with an ellipsis where something is missing."""
    return fit(Content(text), width).plain


def column(text: str, width: int) -> str:
    """Text cut so that a space stays behind it, and filled up to a width in cells."""
    return filled(clip(text, width - 1), width)


def filled(text: str, width: int) -> str:
    """Text with spaces behind it up to a width in cells."""
    return text + " " * (width - Content(text).cell_length)


def fit(content: Content, width: int) -> Content:
    """A line cut to a width in cells, with an ellipsis where something is missing."""
    return content if content.cell_length <= width else content.truncate(max(1, width), ellipsis=True)


def wrapped(text: str, width: int) -> list[str]:
    """Text in lines of at most ``width`` cells, at least one, broken at spaces where it has them."""
    return [row.plain for row in Content(re.sub(r"\s", " ", text)).wrap(max(1, width))] or [""]


def folded(label: str, text: str, width: int, style: str = "", indent: int = 12) -> list[Content]:
    """A label and its text in lines of ``width``, the text aligned behind the label."""
    rows = wrapped(text, max(20, width - indent))
    return [
        line((f" {label:<{indent - 1}}" if not number else " " * indent, MUTED), (row, style))
        for number, row in enumerate(rows)
    ]
