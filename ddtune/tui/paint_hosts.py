"""One line for each host: is it serving, what does it draw and make, what runs, what broke. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from textual.content import Content

from ddtune.engine import sums
from ddtune.gpu.reading import node_power_w
from ddtune.tui import words
from ddtune.tui.paint_status import HEALTH_STYLE, banner
from ddtune.tui.view import View, is_stale, oldest_s

WIDE = 110
LOW = 0.8
"""Of the expected accept length, the part under which it stands out."""
CURSOR = "▸"


@dataclass(frozen=True)
class Columns:
    """Cells of each column; no ``data`` and no standing where there is little room."""

    name: int
    link: int
    data: int
    health: int
    number: int
    profile: int


NARROW_COLUMNS = Columns(10, 7, 0, 9, 7, 10)
WIDE_COLUMNS = Columns(14, 10, 8, 10, 8, 20)


def _columns(width: int) -> Columns:
    return WIDE_COLUMNS if width >= WIDE else NARROW_COLUMNS


def head(width: int) -> Content:
    """The names of the columns."""
    c = _columns(width)
    data = f"{'data':<{c.data}}" if c.data else ""
    numbers = "".join(f"{one:>{c.number}}" for one in ("W", "tok/s", "accept"))
    text = f"   {'host':<{c.name}}{'link':<{c.link}}{data}{'health':<{c.health}}{numbers}  {'profile':<{c.profile}}what"
    return words.fit(words.line((text, words.MUTED)), width)


def lines(views: Sequence[View], chosen: int, width: int, height: int) -> list[Content]:
    """The head, the hosts around the chosen one, and their sum."""
    room = max(1, height - 2)
    first = max(0, min(chosen - room // 2, len(views) - room))
    shown = [row(view, number == chosen, width) for number, view in enumerate(views)][first : first + room]
    return [head(width), *shown, *([_sum(views, width)] if len(views) > 1 else [])]


def row(view: View, chosen: bool, width: int) -> Content:
    """One host. What it last said is dim while it cannot be reached."""
    snapshot, service, c = view.snapshot, view.snapshot.service, _columns(width)
    old = not view.link_up or is_stale(snapshot, oldest_s(snapshot))
    state, style = _link(view)
    data = f"{words.age(oldest_s(snapshot)):<{c.data}}" if c.data else ""
    health = (service.health.upper(), HEALTH_STYLE.get(service.health, "")) if view.link_up else (words.NONE, "")
    expected = view.expected_accept
    low = service.accept_length is not None and expected is not None and service.accept_length < LOW * expected
    profile = words.word(service.profile)
    standing = f" {words.safe(service.standing)}" if service.standing and width >= WIDE else ""
    watts, rate, accept = (
        f"{one:>{c.number}}"
        for one in (
            words.number(node_power_w(snapshot.gpus)),
            words.number(service.tokens_per_s),
            words.number(service.accept_length, 2),
        )
    )
    numbers = words.line(
        watts,
        rate,
        (accept, f"bold {words.BAD}" if low else ""),
        f"  {words.column(profile + standing, c.profile)}",
    )
    name = words.clip(words.safe(snapshot.host), c.name - 1)
    return words.fit(
        words.line(
            (f" {CURSOR if chosen else ' '} ", f"bold {words.NOTE}"),
            (name, "bold reverse" if chosen else "bold"),
            " " * (c.name - Content(name).cell_length),
            (words.column(state, c.link), style),
            data,
            (f"{health[0]:<{c.health}}", health[1]),
            numbers.stylize("dim") if old else numbers,
            *_what(view),
        ),
        width,
    )


def _link(view: View) -> tuple[str, str]:
    link = view.snapshot.link
    if link.state == "up":
        return ("up" if link.rtt_ms is None else f"{link.rtt_ms:.0f} ms"), ""
    if link.state == "connecting":
        return "trying", words.NOTE
    return link.state.upper(), f"bold {words.BAD}"


def _what(view: View) -> list[words.Part]:
    """A transaction, an incident or an alarm, the loudest alone."""
    snapshot, txn = view.snapshot, view.txn
    if not view.link_up:
        return [(words.safe(snapshot.link.error or ""), words.MUTED)]
    if txn is not None:
        return [(f"{words.safe(txn.get('state'))} {words.word(txn.get('candidate_profile'))}", f"bold {words.WARN}")]
    if snapshot.alarms:
        return [(words.safe(snapshot.alarms[0].text), f"bold {words.BAD}")]
    if snapshot.incidents:
        one = snapshot.incidents[-1]
        return [(f"{words.clock(one.at)[:5]} {words.safe(one.cause).replace('_', ' ')}", words.BAD)]
    return [(words.safe(snapshot.service.health_why), words.WARN)]


def _sum(views: Sequence[View], width: int) -> Content:
    up, c = [view for view in views if view.link_up], _columns(width)
    watts = _whole(node_power_w(view.snapshot.gpus) for view in up)
    rate = _whole(view.snapshot.service.tokens_per_s for view in up)
    told = f"{f'{len(up)} of {len(views)} up':<{c.link + c.data + c.health}}"
    total = f"{words.number(watts):>{c.number}}{words.number(rate):>{c.number}}"
    return words.fit(words.line((f" Σ {'':<{c.name}}", "bold"), (told, words.MUTED), (total, "bold")), width)


def _whole(values: Iterable[float | None]) -> float | None:
    """The sum; None where one host says nothing, since a part would pass for the whole."""
    said = list(values)
    known = [one for one in said if one is not None]
    return sums.total(known) if len(known) == len(said) else None


def detail(view: View, width: int) -> list[Content]:
    """What is to be said of the chosen host beside its line."""
    loud = banner(view, width)
    rows = [loud] if loud is not None else []
    why = view.snapshot.service.health_why
    if why and view.link_up:
        rows += words.folded(view.snapshot.service.health, words.safe(why), width - 1, words.WARN, 10)
    for note in view.snapshot.notes:
        rows += words.folded("note", words.safe(note), width - 1, words.WARN, 10)
    return rows
