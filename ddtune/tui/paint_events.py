"""What happened on the host, newest first: pure drawing of its history and of incidents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual.content import Content

from ddtune.engine.model import Incident
from ddtune.tui import words
from ddtune.tui.view import View

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
    ended = [line for line in view.snapshot.history if line.get("event") not in ("armed", "swapped")]
    dated = [(float(line.get("at") or 0.0), _event(line)) for line in ended]
    dated += [(incident.at, _incident(incident)) for incident in view.snapshot.incidents]
    newest = sorted(dated, key=lambda one: one[0], reverse=True)[:height]
    if not newest:
        return [words.line((" nothing has happened yet", words.MUTED))]
    return [words.fit(words.line((f" {words.clock(at)[:5]} ", words.MUTED), text), width) for at, text in newest]


def history(entries: Sequence[Mapping[str, Any]], incidents: Sequence[Incident], width: int) -> list[Content]:
    """Every transaction with its evidence and its owner, the newest first, then incidents outside of any."""
    found = []
    for entry in reversed(entries):
        at = float(entry.get("at") or 0.0)
        owner = entry.get("owner") or {}
        by = f"by {words.word(owner.get('who'))}@{words.word(owner.get('host'))}" if owner else ""
        head = words.line((f" {words.clock(at)}  ", words.MUTED), _event(entry), (f"  {by}", words.MUTED))
        found.append(words.fit(head, width))
        if entry.get("text"):
            found += words.folded("", words.safe(entry["text"]), width, words.MUTED)
        found += _evidence(entry.get("evidence") or (), width)
    for incident in reversed(incidents):
        found.append(words.line((f" {words.clock(incident.at)}  ", words.MUTED), _incident(incident)))
        found += [
            row
            for one in incident.evidence[:3]
            for row in words.folded("", f"{one.source} {words.safe(one.rank or '')}: {words.safe(one.text)}", width)
        ]
    return found or [words.line((" Nothing has happened on this host yet.", words.MUTED))]


def _event(entry: Mapping[str, Any]) -> Content:
    event = str(entry.get("event"))
    mark, style = MARKS.get(event, ("·", ""))
    target = words.word((entry.get("to") or {}).get("profile"))
    cause = f" because {words.safe(entry['cause'])}" if entry.get("cause") else ""
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
    return words.line(("! ", f"bold {words.BAD}"), (words.safe(incident.cause), f"bold {words.BAD}"), f"{where}{gpu}")


def _evidence(entries: Sequence[Mapping[str, Any]], width: int) -> list[Content]:
    return [
        row
        for one in entries[:4]
        for row in words.folded(
            "",
            f"{words.word(one.get('source'))} {words.safe(one.get('rank') or '')}: {words.word(one.get('text'))}",
            width,
        )
    ]
