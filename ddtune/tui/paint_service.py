"""The service panel: pure drawing of one moment."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from ddtune.gate.accept import COLLAPSED
from ddtune.gpu.bound import bound
from ddtune.live.snapshot import ServiceReading
from ddtune.live.worth import Worth
from ddtune.tui import words
from ddtune.tui.view import View, is_stale

COMPACT = 6
"""Lines under which only what an operator asks first is shown."""
INDENT = 10
GRAPHS_FELL = 0.5


def lines(view: View, width: int, height: int) -> list[Content]:
    """What the service makes, whether speculation works, what bounds it, and how it stands; the first things first."""
    engine = _engine(view)
    if is_stale(view.snapshot, view.snapshot.ages.engine):
        mark = (f"  STALE {words.age(view.snapshot.ages.engine)}", f"bold {words.WARN}")
        engine = [one.stylize("dim") for one in engine]
        engine[0] = words.line(engine[0], mark)
    worth = _worth_in_short(view) if height < COMPACT else _worth(view)
    if is_stale(view.snapshot, view.snapshot.ages.engine):
        worth = [one.stylize("dim") for one in worth]
    if height < COMPACT:
        rows = [*engine, *_bound(view), *worth]
    else:
        rows = [*engine, *_bound(view), *worth, *_unit(view), *_why(view, width), *_notes(view, width)]
        rows += _argv(view, width) if len(rows) < height - 1 else []
    shown = [words.fit(one, width) for one in rows]
    if height >= COMPACT and len(shown) > height:
        shown[height - 1] = words.line(shown[height - 1], (" …", words.MUTED))
    return shown[:height]


def _engine(view: View) -> list[Content]:
    service = view.snapshot.service
    return [
        words.line(
            (f" {words.number(service.tokens_per_s)} tok/s", "bold"),
            "   accept ",
            *_accept(view),
            f"   step {_seconds(view.step_s, fine=True)}   graphs ",
            *_graphs(service, view.wants_graphs),
        ),
        words.line(
            f" running {words.number(service.running)}{_of(service.max_running)}",
            "   queued ",
            (words.number(service.queued), f"bold {words.WARN}" if service.queued else ""),
            f"   kv {words.percent(service.kv_usage)}",
            f"   prefix hit {words.percent(service.cache_hit)}",
            (" (held)" if "cache_hit" in service.frozen else "", words.MUTED),
        ),
        words.line(
            f" ttft p50 {_seconds(service.ttft_p50_s)} p95 {_seconds(service.ttft_p95_s)}"
            f"   itl p50 {_seconds(service.itl_p50_s)} p95 {_seconds(service.itl_p95_s)}"
        ),
    ]


def _accept(view: View) -> list[words.Part]:
    """The accept length beside what the profile expects; 1.00 means that no draft token is ever taken."""
    service, expected = view.snapshot.service, view.expected_accept
    value = service.accept_length
    text = words.number(value, 2)
    if value is not None and value <= COLLAPSED and expected:
        return [(text, f"bold {words.BAD}"), (" no draft is accepted", words.BAD)]
    source = f" by its {service.accept_source}" if service.accept_source in ("log", "gauge") else ""
    return [
        (text, "bold"),
        (f" of {words.number(expected, 2)}" if expected else "", words.MUTED),
        (source, words.MUTED),
    ]


def _graphs(service: ServiceReading, wanted: bool | None) -> list[words.Part]:
    """What the steps of the last seconds did, not what the engine was told to do."""
    if service.graphs_in_use is None:
        return [words.NONE]
    bad = f"bold {words.BAD}" if wanted else ""
    if service.graph_share is None:
        return ["in use" if service.graphs_in_use else ("off", bad)]
    if service.graph_share <= 0:
        return [("off", bad)]
    return [(words.percent(service.graph_share), bad if service.graph_share < GRAPHS_FELL else "")]


def _bound(view: View) -> list[Content]:
    label = (f" {'bound by':<{INDENT - 1}}", words.MUTED)
    if is_stale(view.snapshot, view.snapshot.ages.gpus):
        return [words.line(label, (f"{words.NONE}  no fresh GPU reading", words.MUTED))]
    found = bound(view.snapshot.gpus)
    unsure = found.label in ("unknown", "mixed", "idle")
    return [
        words.line(label, (found.label, "" if unsure else f"bold {words.NOTE}"), (f"  {found.reason}", words.MUTED))
    ]


def _worth(view: View) -> list[Content]:
    """Each other budget and the step time below which it makes more than what runs now."""
    found = view.worth
    if not found:
        return []
    now = _seconds(view.step_s, fine=True)
    head = words.line((f" a budget pays when its step takes less than (now {now})", words.MUTED))
    return [head, *(words.line(f"   b{one.budget:<4}", *_budget(one)) for one in found)]


def _budget(one: Worth) -> list[words.Part]:
    bad: words.Part = (f"  {one.bad.replace('_', ' ')}" if one.bad else "", words.BAD)
    if one.accept_length is None:
        return [f"{words.NONE:>8}", bad, ("  accept not recorded", words.MUTED)]
    accept = f"  accept {'about ' if one.between else ''}{words.number(one.accept_length, 1 if one.between else 2)}"
    return [(f"{_seconds(one.break_even_s, fine=True):>8}", "bold"), bad, (accept, words.MUTED)]


def _worth_in_short(view: View) -> list[Content]:
    parts: list[words.Part] = [(f" {'pays at':<{INDENT - 1}}", words.MUTED)]
    known = [one for one in view.worth if one.break_even_s is not None]
    for one in known:
        parts += [f"b{one.budget} under {_seconds(one.break_even_s, fine=True)}"]
        parts += [(" known bad" if one.bad else "", words.BAD), "   "]
    return [words.line(*parts)] if known else []


def _unit(view: View) -> list[Content]:
    snapshot = view.snapshot
    service = snapshot.service
    ranks = f"{words.number(service.schedulers)} of {words.number(service.schedulers_expected)}"
    rank_style = f"bold {words.BAD}" if _missing(service.schedulers, service.schedulers_expected) else ""
    unit = [
        words.line(
            f" {words.word(service.unit)} {words.word(service.state)}   ranks ",
            (ranks, rank_style),
            f"   restarts {words.number(service.restarts)}",
        ),
        words.line(
            f" stable {words.word(service.stable_profile)}   before {words.word(service.previous_profile)}"
            f"   last proof {words.age(service.last_proof_s)}"
        ),
    ]
    if is_stale(snapshot, snapshot.ages.unit):
        unit = [one.stylize("dim") for one in unit]
        unit[0] = words.line(unit[0], (f"  STALE {words.age(snapshot.ages.unit)}", f"bold {words.WARN}"))
    return unit


def _why(view: View, width: int) -> list[Content]:
    why = view.snapshot.service.health_why
    if not why or not view.link_up:
        return []
    return words.folded(view.snapshot.service.health, words.safe(why), width - 1, words.WARN, INDENT)


def _notes(view: View, width: int) -> list[Content]:
    """What could not be read; alarms stand with the GPUs."""
    alarms = {one.text for one in view.snapshot.alarms}
    notes = [words.safe(note) for note in view.snapshot.notes if note not in alarms]
    return [row for note in notes for row in words.folded("note", note, width - 1, words.WARN, INDENT)]


def _argv(view: View, width: int) -> Sequence[Content]:
    program, *rest = view.snapshot.service.argv or ("",)
    argv = " ".join(words.safe(one) for one in (program.rpartition("/")[2], *rest))
    return words.folded("runs", argv, width - 1, words.MUTED, INDENT) if program else []


def _missing(present: int | None, expected: int | None) -> bool:
    return present is not None and expected is not None and present < expected


def _of(most: int | None) -> str:
    return "" if most is None else f" of {most}"


def _seconds(value: float | None, *, fine: bool = False) -> str:
    if value is None:
        return words.NONE
    if value < (0.1 if fine else 0.01):
        return f"{1000 * value:.1f} ms"
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s"
