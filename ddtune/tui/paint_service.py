"""The service panel: pure drawing of one moment."""

from __future__ import annotations

from textual.content import Content

from ddtune.gpu.reading import joules_per_token, node_power_w
from ddtune.tui import words
from ddtune.tui.view import View, is_stale

COLLAPSED = 1.05


def lines(view: View, width: int, height: int) -> list[Content]:
    """What the service makes, whether speculation works, and how it stands; the most important first."""
    snapshot = view.snapshot
    service = snapshot.service
    per_token = joules_per_token(node_power_w(snapshot.gpus), service.tokens_per_s)
    graphs = {True: "in use", False: "off", None: words.NONE}[service.graphs_in_use]
    ranks = f"{words.number(service.schedulers)} of {words.number(service.schedulers_expected)}"
    engine = [
        words.line(
            (f" {words.number(service.tokens_per_s)} tok/s", "bold"),
            "   accept ",
            *_accept(view),
            f"   {words.number(per_token, 2)} J/token",
        ),
        words.line(
            f" running {words.number(service.running)}{_of(service.max_running)}"
            f"   queued {words.number(service.queued)}   kv {words.percent(service.kv_usage)}"
            f"   prefix hit {words.percent(service.cache_hit)}"
        ),
        words.line(
            f" ttft {_seconds(service.ttft_p50_s)}{_p95(service.ttft_p95_s)}"
            f"   itl {_seconds(service.itl_p50_s)}{_p95(service.itl_p95_s)}   graphs {graphs}"
        ),
    ]
    if is_stale(snapshot, snapshot.ages.engine):
        mark = (f"  STALE {words.age(snapshot.ages.engine)}", f"bold {words.WARN}")
        engine = [one.stylize("dim") for one in engine]
        engine[0] = words.line(engine[0], mark)
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
    notes = [row for note in snapshot.notes for row in words.folded("note", words.safe(note), width - 1, words.WARN, 6)]
    argv = [] if height <= len(engine) + len(unit) + len(notes) else _argv(view, width)
    rows = [*engine, *unit, *notes, *argv]
    if argv and len(rows) > height:
        rows[height - 1] = words.line(rows[height - 1], (" …", words.MUTED))
    return rows[:height]


def _accept(view: View) -> list[words.Part]:
    """The accept length beside what the profile expects; 1.00 means that no draft token is ever taken."""
    value, expected = view.snapshot.service.accept_length, view.expected_accept
    text = words.number(value, 2)
    if value is not None and value <= COLLAPSED and expected:
        return [(text, f"bold {words.BAD}"), (" no draft is accepted", words.BAD)]
    return [(text, "bold"), (f" of {words.number(expected, 2)}" if expected else "", words.MUTED)]


def _argv(view: View, width: int) -> list[Content]:
    program, *rest = view.snapshot.service.argv or ("",)
    argv = " ".join(words.safe(one) for one in (program.rpartition("/")[2], *rest))
    return ([words.line(""), *words.folded("runs", argv, width - 1, words.MUTED, 6)]) if program else []


def _missing(present: int | None, expected: int | None) -> bool:
    return present is not None and expected is not None and present < expected


def _of(most: int | None) -> str:
    return "" if most is None else f" of {most}"


def _seconds(value: float | None) -> str:
    if value is None:
        return words.NONE
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s"


def _p95(value: float | None) -> str:
    return "" if value is None else f" p95 {_seconds(value)}"
