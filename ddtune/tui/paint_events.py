"""What happened on the host, newest first: pure drawing of its history and of incidents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual.content import Content

from ddtune.engine.log import body_of, parse
from ddtune.engine.model import Incident
from ddtune.tui import words
from ddtune.tui.view import View

EVIDENCE_SHOWN = 3
STEPS = ("armed", "swapped")
MARKS = {
    "committed": ("✓", words.GOOD),
    "adopted": ("✓", words.GOOD),
    "rolled_back": ("↩", words.WARN),
    "aborted": ("↩", words.WARN),
    "late_crash": ("↩", words.WARN),
    "rollback_failed": ("✗", words.BAD),
    "host_action_required": ("✗", words.BAD),
}
SAID = {
    "late_crash": "crashed in probation, went back from",
    "rolled_back": "rolled back from",
    "rollback_failed": "ROLLBACK FAILED after",
    "host_action_required": "HOST ACTION REQUIRED after",
    "aborted": "aborted",
    "armed": "armed",
    "swapped": "swapped to",
}


def lines(view: View, width: int, height: int) -> list[Content]:
    """The newest events in ``height`` lines: how each transaction ended, and each incident."""
    ended = [line for line in view.snapshot.history if line.get("event") not in STEPS]
    dated = [(float(line.get("at") or 0.0), _event(line)) for line in ended]
    dated += [(incident.at, _incident(incident)) for incident in view.snapshot.incidents]
    newest = sorted(dated, key=lambda one: one[0], reverse=True)[:height]
    if not newest:
        return [words.line((" nothing has happened yet", words.MUTED))]
    return [words.fit(words.line((f" {words.clock(at)[:5]} ", words.MUTED), text), width) for at, text in newest]


def history(entries: Sequence[Mapping[str, Any]], incidents: Sequence[Incident], width: int) -> list[Content]:
    """How each transaction ended, with its evidence, its owner and what it took, and each incident; the newest first.

    The steps of a transaction stand only until its end is known.
    """
    over = {entry.get("op") for entry in entries if entry.get("event") not in STEPS and entry.get("op")}
    told = [entry for entry in entries if entry.get("event") not in STEPS or entry.get("op") not in over]
    dated = [(float(entry.get("at") or 0.0), _in_full(entry, width)) for entry in told]
    dated += [(one.at, _incident_in_full(one, width)) for one in incidents]
    found = [row for _, rows in sorted(dated, key=lambda one: one[0], reverse=True) for row in (*rows, words.line(""))]
    return found or [words.line((" Nothing has happened on this host yet.", words.MUTED))]


def _in_full(entry: Mapping[str, Any], width: int) -> list[Content]:
    at = f" {words.day(float(entry.get('at') or 0.0))}  "
    rows = [words.fit(words.line((at, words.MUTED), _event(entry)), width)]
    rows += words.folded("", " · ".join(_about(entry)), width, words.MUTED) if _about(entry) else []
    evidence = entry.get("evidence") or []
    text = str(entry.get("text") or "")
    if text and text not in (str(one.get("text")) for one in evidence):
        rows += words.folded("", words.safe(text), width, words.MUTED)
    for one in evidence[:EVIDENCE_SHOWN]:
        rows += _line(str(one.get("source")), one.get("rank"), str(one.get("text")), width)
    return rows


def _about(entry: Mapping[str, Any]) -> list[str]:
    """Where it came from, whose it was and what it took."""
    owner, origin = entry.get("owner") or {}, (entry.get("from") or {}).get("profile")
    times = entry.get("times") or {}
    found = [f"from {words.safe(origin)}"] if origin else []
    if owner:
        found.append(f"by {words.word(owner.get('who'))}@{words.word(owner.get('host'))}")
    if entry.get("force"):
        found.append("forced")
    if isinstance(times.get("ended"), int | float):
        found.append(f"{words.span(times['ended'])} in all")
    return found


def _incident_in_full(incident: Incident, width: int) -> list[Content]:
    at = (f" {words.day(incident.at)}  ", words.MUTED)
    rows = [words.fit(words.line(at, _incident(incident)), width)]
    elapsed = "" if incident.elapsed_s is None else f", {words.span(incident.elapsed_s)} after the start"
    about = [f"{words.safe(incident.phase)}{elapsed}" if incident.phase else "", incident.confidence]
    about += [f"of {words.safe(incident.profile)}" if incident.profile else ""]
    about += [f"differs from stable: {words.safe(', '.join(incident.changed))}" if incident.changed else ""]
    rows += words.folded("", " · ".join(one for one in about if one), width, words.MUTED)
    rows += words.folded("", words.safe(incident.note), width) if incident.note else []
    rows += words.folded("to do", words.safe(incident.action), width, words.NOTE) if incident.action else []
    for one in incident.evidence[:EVIDENCE_SHOWN]:
        rows += _line(one.source, one.rank, one.text, width)
    return rows


def _line(source: str, rank: object, text: str, width: int) -> list[Content]:
    where = words.safe(source) + (f" {words.safe(rank)}" if rank else "")
    return words.folded("", f"{where}: {body_of(parse(text))}", width)


def _event(entry: Mapping[str, Any]) -> Content:
    event = str(entry.get("event"))
    mark, style = MARKS.get(event, ("·", ""))
    target = words.word((entry.get("to") or {}).get("profile"))
    why = "" if entry.get("cause") == event else words.safe(entry.get("cause") or "").replace("_", " ")
    cause = f" because {why}" if why else ""
    said = SAID.get(event, words.safe(event).replace("_", " "))
    return words.line(
        (f"{mark} ", f"bold {style}"),
        (f"{said} {target}", "bold"),
        cause,
        (f"  {words.safe(entry.get('op') or '')}", words.MUTED),
    )


def _incident(incident: Incident) -> Content:
    where = f" on {words.safe(incident.rank)}" if incident.rank else ""
    gpu = "" if incident.gpu is None else f", GPU {incident.gpu}"
    return words.line(
        ("! ", f"bold {words.BAD}"),
        (words.safe(incident.cause).replace("_", " "), f"bold {words.BAD}"),
        f"{where}{gpu}",
    )
