"""A transaction under way: its phases, and what happens if this screen goes away now. Pure drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from textual.content import Content

from ddtune.gate.model import CheckResult, GateEvent, Verdict
from ddtune.tui import words
from ddtune.tui.view import Run, View

ORDER = ("baseline", "upload", "arm", "drain", "stop", "start", "quick", "full", "soak", "confirm")
MARKS = {
    "done": ("✓", words.GOOD),
    "running": ("▸", f"bold {words.NOTE}"),
    "failed": ("✗", f"bold {words.BAD}"),
    "next": ("·", words.MUTED),
}
HOST_STAGES = (
    ("drain", "armed", "swapped"),
    ("stop", "swapped", "stopped"),
    ("start", "stopped", "ready"),
    ("gate", "ready", "soak"),
    ("soak", "soak", "confirmed"),
    ("rollback", "rollback_begun", "serving"),
)
"""Phases by the instants in txn.json between which they lie."""
VERDICTS = {Verdict.PASS: ("pass", words.GOOD), Verdict.FAIL: ("FAIL", f"bold {words.BAD}")}


@dataclass(frozen=True)
class Stage:
    """One phase as it is shown. ``state`` is ``next``, ``running``, ``done`` or ``failed``."""

    name: str
    state: str = "next"
    seconds: float = 0.0
    text: str = ""
    parts: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()


def stages(run: Run, now: float) -> list[Stage]:
    """All phases in order: those that ended, the one that runs, and those to come."""
    found: dict[str, Stage] = {}
    began: dict[str, float] = {}
    for step in run.steps:
        progress = step.progress
        name = "rollback" if "rollback" in found and progress.check else progress.phase.split(" ")[0]
        stage = found.get(name, Stage(name))
        if progress.gate is not None:
            stage = replace(stage, text=_standing(progress.gate))
        elif progress.check is not None:
            stage = replace(stage, checks=(*stage.checks, progress.check))
        elif progress.phase.startswith("start "):
            part = f"{progress.phase.removeprefix('start ')} {progress.seconds:.0f}"
            stage = replace(stage, parts=(*stage.parts, part))
        elif progress.done:
            stage = replace(stage, state="done", seconds=progress.seconds)
        else:
            began[name] = step.at
            stage = replace(stage, state="running", text=progress.text)
        found[name] = stage
    for name, stage in found.items():
        if stage.state == "running":
            given_up = not run.active or (name != "rollback" and "rollback" in found)
            end = run.ended if run.ended is not None else now
            state = "failed" if given_up else "running"
            found[name] = replace(stage, state=state, seconds=max(0.0, end - began[name]))
    if run.kind == "abort":
        return list(found.values())
    over = not run.active or "rollback" in found
    return [
        *(found.get(name, Stage(name)) for name in ORDER if name in found or not over),
        *(s for n, s in found.items() if n not in ORDER),
    ]


def host_stages(txn: Mapping[str, Any], boottime: float | None) -> list[Stage]:
    """The phases as the host itself tells of them: all that is known of a change that was not started here."""
    times = {name: at for name, at in (txn.get("times") or {}).items() if isinstance(at, int | float)}
    decided = txn.get("state") not in ("ARMED", "TRIAL", "SOAK", "COMMITTING")
    now = max(times.values(), default=0.0) if txn.get("settled") or boottime is None else boottime
    found = []
    for name, begin, end in HOST_STAGES:
        if begin not in times:
            if not decided and name != "rollback":
                found.append(Stage(name))
        elif end in times:
            found.append(Stage(name, "done", max(0.0, times[end] - times[begin])))
        else:
            given_up = decided and name != "rollback"
            until = times.get("rollback_begun", now) if given_up else now
            found.append(Stage(name, "failed" if given_up else "running", max(0.0, until - times[begin])))
    return found


def _standing(event: GateEvent) -> str:
    """Where a gate stands, in a few words."""
    asked = f", {event.answered} of {event.asked} answers" if event.asked else ""
    return f"{event.number} of {event.of}: {event.check.replace('_', ' ')}{asked}"


def lines(view: View, width: int, height: int) -> list[Content]:
    """The phases in at most ``height`` lines: when they do not fit, what went well shrinks to a few words."""
    run = view.run
    if run is None or (run.kind == "abort" and not run.steps and view.txn is not None):
        shown = host_stages(view.snapshot.txn or {}, view.boottime)
        return [row for stage in shown for row in _stage(stage, width)][-height:]
    shown = stages(run, view.now)
    if not shown or (run.active and not run.steps):
        first = f"reading the host before anything is touched, {words.span(view.now - run.began)}"
        if run.kind == "abort":
            first = f"the host was told to go back, {words.span(view.now - run.began)} ago"
        return [words.line(("▸ ", f"bold {words.NOTE}"), first)]
    done = [stage for stage in shown if stage.state == "done"]
    rows = [row for stage in shown for row in _stage(stage, width)]
    for short in range(1, len(done) + 1):
        if len(rows) <= height:
            break
        rows = _condensed(done[:short], [stage for stage in shown if stage not in done[:short]], width)
    return rows[-height:]


def _stage(stage: Stage, width: int) -> list[Content]:
    mark, style = MARKS[stage.state]
    seconds = "" if stage.state == "next" else f"{stage.seconds:7.1f} s"
    detail = " · ".join(stage.parts) or words.safe(stage.text)
    row = words.line(
        (f" {mark} ", style),
        (f"{stage.name:<9}", style if stage.state != "done" else ""),
        f"{seconds:>10}",
        (f"  {detail}", words.MUTED),
    )
    return [words.fit(row, width), *(_check(check, width) for check in stage.checks)]


def _check(check: CheckResult, width: int) -> Content:
    verdict, style = VERDICTS.get(check.verdict, ("open", f"bold {words.WARN}"))
    row = words.line(
        "     ",
        (f"{verdict:<5}", style),
        f"{check.name.replace('_', ' '):<15}",
        (f" {words.safe(check.reason)}", words.MUTED),
    )
    return words.fit(row, width)


def _condensed(done: Sequence[Stage], others: Sequence[Stage], width: int) -> list[Content]:
    """What went well in a few words, what is still to come too, and the rest in full."""
    text = " · ".join(f"{one.name} {one.seconds:.0f} s{_passed(one)}" for one in done)
    rows = [
        words.line((" ✓ " if not number else "   ", words.GOOD), row)
        for number, row in enumerate(words.wrapped(text, max(20, width - 4)))
    ]
    rows += [row for one in others if one.state != "next" for row in _stage(one, width)]
    coming = " · ".join(one.name for one in others if one.state == "next")
    return [*rows, words.line((f" · {coming}", words.MUTED))] if coming else rows


def _passed(stage: Stage) -> str:
    passed = sum(check.verdict is Verdict.PASS for check in stage.checks)
    return f" ({passed} of {len(stage.checks)} passed)" if stage.checks else ""


def closing(view: View) -> str:
    """One sentence: what happens if the laptop is closed now."""
    run, txn = view.run, view.txn
    stable = words.word((txn or {}).get("stable_profile") or view.snapshot.service.stable_profile)
    if txn is None:
        if run is None or not run.active:
            return "Nothing is under way."
        return "If you close the laptop now: nothing happens, the host is untouched."
    state = str(txn.get("state"))
    if state in ("COMMITTING", "COMMITTED"):
        return f"If you close the laptop now: the host stays on {words.word(txn.get('candidate_profile'))}."
    if state not in ("ARMED", "TRIAL", "SOAK"):
        return f"If you close the laptop now: the host goes on going back to {stable} by itself."
    lease = words.span(view.until("lease_until"))
    if state == "ARMED":
        return f"If you close the laptop now: the host drops the change by itself in {lease} and stays on {stable}."
    return f"If you close the laptop now: the host goes back to {stable} by itself in {lease}."


def countdown(view: View, width: int) -> Content:
    """Lease and deadline as they run down on the host."""
    if view.txn is None or str(view.txn.get("state")) not in ("ARMED", "TRIAL", "SOAK"):
        return words.line("")
    lease, deadline = words.span(view.until("lease_until")), words.span(view.until("confirm_deadline"))
    where = "from here" if view.run is not None and view.run.kind != "abort" else "by whoever began it"
    text = f" lease {lease}, renewed {where} · decided in {deadline} at the latest"
    return words.fit(words.line((text, words.MUTED)), width)
