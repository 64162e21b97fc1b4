"""Values as the screen writes them; what is not available is a dash."""

from __future__ import annotations

from ddtune.engine.log import sanitise

NONE = "—"
STALE_TICKS = 3


def number(value: float | None, digits: int = 0) -> str:
    """A number with thin groups of thousands."""
    return NONE if value is None else f"{value:,.{digits}f}".replace(",", " ")


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
    return f"{seconds / 3600:.0f} h"


def bar(value: float | None, limit: float | None, width: int) -> str:
    """A bar of eighths with a dotted rest; clamped in drawing only."""
    if value is None or not limit or width < 1:
        return "·" * max(0, width)
    eighths = round(8 * width * min(1.0, max(0.0, value / limit)))
    full, part = divmod(eighths, 8)
    drawn = "█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")
    return drawn + "·" * (width - len(drawn))


def clip(text: str, width: int) -> str:
    """Text cut to a width, with an ellipsis where something is missing."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"
