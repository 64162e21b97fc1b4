"""Profiles as rows and in detail: pure drawing."""

from __future__ import annotations

from textual.content import Content

from ddtune.profiles.model import Profile
from ddtune.tui import words
from ddtune.tui.catalogue import Entry

STYLES = {
    "proven": words.GOOD,
    "adopted": words.GOOD,
    "probation": words.NOTE,
    "failed": words.BAD,
    "known-bad": words.BAD,
    "unsupported": words.BAD,
}
HEAD = (
    f" {'profile':<14}{'budget':>6}{'topk':>5}  {'graphs':<7}{'nvls':<5}"
    f"{'accept':>6}{'C=1':>6}{'C=128':>7}{'down':>6}  here"
)
LEGEND = "~ expected, not seen here · down: stop to a checked generation"


def row(entry: Entry, running: str | None) -> Content:
    """One profile on one line: its axes, what it was last seen to do, its downtime, and how it stands here."""
    profile = entry.profile
    axes, expect, seen = profile.axes, profile.expect, entry.measured
    mark = "●" if profile.name == running else " "
    standing = entry.standing or ""
    bad = f"!{standing}" if standing in ("failed", "known-bad", "unsupported") else standing
    return words.line(
        (f"{mark}{words.column(profile.name, 14)}", "bold"),
        f"{_axis(profile, 'budget'):>6}{_axis(profile, 'topk'):>5}  ",
        f"{_switch(axes.get('graphs')):<7}{_switch(axes.get('nvls')):<5}",
        _seen(seen.accept_length, expect.accept_length, 6, 2),
        _seen(seen.tokens_per_s_1, expect.tokens_per_s.get(1), 6),
        _seen(seen.tokens_per_s_128, expect.tokens_per_s.get(128), 7),
        _down(entry),
        (f"  {bad}", STYLES.get(standing, words.MUTED)),
    )


def _down(entry: Entry) -> words.Part:
    if entry.downtime is None:
        return f"{words.NONE:>6}"
    text = f"{'' if entry.downtime.own else '~'}{entry.downtime.typical_s:.0f} s"
    return (f"{text:>6}", "" if entry.downtime.own else words.MUTED)


def _seen(measured: float | None, expected: float | None, width: int, digits: int = 0) -> words.Part:
    if measured is not None:
        return f"{words.number(measured, digits):>{width}}"
    text = words.number(expected, digits)
    return (f"{text if expected is None else f'~{text}':>{width}}", words.MUTED)


def detail(entry: Entry, width: int) -> list[Content]:
    """What a profile is, in sentences."""
    profile, seen = entry.profile, entry.measured
    found = words.folded(profile.name, words.safe(profile.description) or "no description", width, "", 17)
    axes = "  ".join(f"{axis} {_value(value)}" for axis, value in profile.axes.items())
    found += words.folded("axes", axes, width, "", 17)
    rates = "  ".join(f"{words.number(rate)} tok/s at C={level}" for level, rate in profile.expect.tokens_per_s.items())
    expected = f"accept length {words.number(profile.expect.accept_length, 2)}  {rates}".strip()
    found += words.folded("expected", expected, width, "", 17)
    if seen.at is not None:
        last = (
            f"accept length {words.number(seen.accept_length, 2)}  {words.number(seen.tokens_per_s_1)} tok/s at C=1  "
            f"{words.number(seen.tokens_per_s_128)} tok/s at C=128  ({words.day(seen.at)})"
        )
        found += words.folded("last seen here", last, width, "", 17)
    if entry.downtime is not None:
        about = f"about {words.span(entry.downtime.typical_s)} ({entry.downtime.text})"
        found += words.folded("downtime", about, width, "", 17)
    if entry.standing:
        why = f": {words.safe(entry.cause).replace('_', ' ')}" if entry.cause else ""
        stable = ", the stable release" if entry.stable else ""
        found += words.folded("here", f"{entry.standing}{stable}{why}", width, STYLES.get(entry.standing, ""), 17)
    return found


def _axis(profile: Profile, name: str) -> str:
    if profile.axes.get("algorithm") == "none":
        return words.NONE
    value = profile.axes.get(name)
    return words.NONE if value is None else _value(value)


def _switch(value: object) -> str:
    return words.NONE if value is None else _value(value)


def _value(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else words.safe(value)
