"""One line for each host: is it serving, what does it draw and make, what runs, what broke. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual.content import Content

from ddtune.gpu.reading import node_power_w
from ddtune.tui import words
from ddtune.tui.paint_status import HEALTH_STYLE, banner
from ddtune.tui.view import View, is_stale, oldest_s

WIDE = 110
NAME = 12
CURSOR = "▸"


def head(width: int) -> Content:
    """The names of the columns."""
    link = f"{'link':<10}{'data':<8}" if width >= WIDE else f"{'link':<10}"
    text = f"   {'host':<{NAME}}{link}{'health':<10}{'W':>7}{'tok/s':>8}{'accept':>8}  {'profile':<18}what"
    return words.fit(words.line((text, words.MUTED)), width)


def lines(views: Sequence[View], chosen: int, width: int, height: int) -> list[Content]:
    """The head, the hosts around the chosen one, and their sum."""
    room = max(1, height - 2)
    first = max(0, min(chosen - room // 2, len(views) - room))
    shown = [row(view, number == chosen, width) for number, view in enumerate(views)][first : first + room]
    return [head(width), *shown, *([_sum(views, width)] if len(views) > 1 else [])]


def row(view: View, chosen: bool, width: int) -> Content:
    """One host. What it last said is dim while it cannot be reached."""
    snapshot, service = view.snapshot, view.snapshot.service
    old = not view.link_up or is_stale(snapshot, oldest_s(snapshot))
    link = snapshot.link
    if link.state == "up":
        state = ("link up" if link.rtt_ms is None else f"{link.rtt_ms:.0f} ms", "")
    else:
        state = (link.state.upper(), f"bold {words.BAD}" if link.state != "connecting" else words.NOTE)
    data = f"{words.age(oldest_s(snapshot)):<8}" if width >= WIDE else ""
    health = (service.health.upper(), HEALTH_STYLE.get(service.health, "")) if view.link_up else (words.NONE, "")
    expected = view.expected_accept
    low = service.accept_length is not None and expected is not None and service.accept_length < 0.8 * expected
    profile = words.word(service.profile)
    standing = f" {words.safe(service.standing)}" if service.standing else ""
    numbers = words.line(
        f"{words.number(node_power_w(snapshot.gpus)):>7}{words.number(service.tokens_per_s):>8}",
        (f"{words.number(service.accept_length, 2):>8}", f"bold {words.BAD}" if low else ""),
        (f"  {words.clip(profile + standing, 17):<18}", ""),
    )
    return words.fit(
        words.line(
            (f" {CURSOR if chosen else ' '} ", f"bold {words.NOTE}"),
            (f"{words.clip(words.safe(snapshot.host), NAME - 1):<{NAME}}", "bold" if not chosen else "bold reverse"),
            (f"{state[0]:<10}", state[1]),
            data,
            (f"{health[0]:<10}", health[1]),
            numbers.stylize("dim") if old else numbers,
            *_what(view),
        ),
        width,
    )


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
    up = [view for view in views if view.link_up]
    watts = [power for view in up if (power := node_power_w(view.snapshot.gpus)) is not None]
    rates = [rate for view in up if (rate := view.snapshot.service.tokens_per_s) is not None]
    link = f"{f'{len(up)} of {len(views)} up':<{28 if width >= WIDE else 20}}"
    total = f"{words.number(math.fsum(watts)):>7}{words.number(math.fsum(rates)):>8}"
    return words.fit(words.line((f" Σ {'':<{NAME}}", "bold"), (link, words.MUTED), (total, "bold")), width)


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
