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
HEAD = f" {'profile':<14}{'budget':>7}{'topk':>5}  {'graphs':<7}{'nvls':<6}{'accept':>7}{'C=1':>7}{'C=128':>7}  here"


def row(entry: Entry, running: str | None) -> Content:
    """One profile on one line: its axes, what is expected of it, and how it stands here."""
    profile = entry.profile
    axes, expect = profile.axes, profile.expect
    mark = "●" if profile.name == running else " "
    standing = entry.standing or ""
    bad = f"!{standing}" if standing in ("failed", "known-bad", "unsupported") else standing
    return words.line(
        (f"{mark}{words.clip(profile.name, 14):<14}", "bold"),
        f"{_axis(profile, 'budget'):>7}{_axis(profile, 'topk'):>5}  ",
        f"{_switch(axes.get('graphs')):<7}{_switch(axes.get('nvls')):<6}",
        f"{words.number(expect.accept_length, 2):>7}{words.number(expect.tokens_per_s.get(1)):>7}"
        f"{words.number(expect.tokens_per_s.get(128)):>7}  ",
        (bad, STYLES.get(standing, words.MUTED)),
        (" stable" if entry.stable else "", words.MUTED),
    )


def detail(entry: Entry, width: int) -> list[Content]:
    """What a profile is, in sentences."""
    profile = entry.profile
    found = words.folded(profile.name, words.safe(profile.description) or "no description", width, "", 15)
    axes = "  ".join(f"{axis} {_value(value)}" for axis, value in profile.axes.items())
    found += words.folded("axes", axes, width, "", 15)
    rates = "  ".join(f"{words.number(rate)} tok/s at C={level}" for level, rate in profile.expect.tokens_per_s.items())
    expected = f"accept length {words.number(profile.expect.accept_length, 2)}  {rates}".strip()
    found += words.folded("expected", expected, width, "", 15)
    if entry.standing:
        why = f": {words.safe(entry.cause).replace('_', ' ')}" if entry.cause else ""
        found += words.folded("here", f"{entry.standing}{why}", width, STYLES.get(entry.standing, ""), 15)
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
