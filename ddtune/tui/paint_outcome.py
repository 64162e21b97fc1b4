"""How a transaction ended: pure drawing."""

from __future__ import annotations

from textual.content import Content

from ddtune.engine.log import body_of, parse
from ddtune.gate.model import Verdict
from ddtune.rollout.model import Outcome
from ddtune.tui import words
from ddtune.tui.words import folded

STYLES = {"committed": f"bold {words.GOOD}", "rolled_back": f"bold {words.WARN}", "refused": f"bold {words.WARN}"}
EVIDENCE_SHOWN = 5
INDENT = 12
NEXT = {
    "committed": "watch it; an unasked end within its days of probation goes back by itself (b goes back by hand)",
    "rolled_back": "leave it; the failed release is quarantined with its evidence (H shows the history, l the log)",
    "refused": "nothing was touched; read why above",
    "rollback_failed": "log in now and run /usr/local/sbin/ddtune-rollback, then look at the unit's journal",
    "host_action_required": "do what the host asks for above, then restart the stable release",
    "unknown": "wait for the link: the host decides by itself, and H shows how",
}


def title(outcome: Outcome) -> str:
    """The outcome in a few words."""
    return outcome.outcome.replace("_", " ").upper()


def lines(outcome: Outcome, width: int) -> list[Content]:
    """How it ended, why, on what evidence, what it cost, and the next sensible step."""
    found = [words.line((f" {title(outcome)} ", STYLES.get(outcome.outcome, words.LOUD)), f" {words.word(outcome.op)}")]
    found += [words.line(""), *folded("now", words.safe(outcome.message), width, "bold")]
    if outcome.cause:
        found += folded("because", outcome.cause.replace("_", " "), width, "bold")
    for number, one in enumerate(outcome.evidence[:EVIDENCE_SHOWN]):
        rank = f" {words.safe(one.rank)}" if one.rank else ""
        text = f"{words.clock(one.at)} {words.safe(one.source)}{rank}: {body_of(parse(one.text))}"
        rows = folded("" if number else "evidence", text, width)
        # The first line is what it rests on; the others are there to be recognised in the log.
        found += rows if not number else [words.fit(words.line(" " * INDENT, text), width)]
    found += _gate(outcome, width)
    if outcome.outcome != "refused":
        found += folded(
            "cost",
            f"down {words.number(outcome.downtime_s, 1)} s · {words.number(outcome.requests_cut)} requests cut · "
            f"{words.number(outcome.served_ungated)} answers served ungated",
            width,
        )
    return [*found, *folded("next", NEXT.get(outcome.outcome, "look at the host's history"), width, words.NOTE)]


def _gate(outcome: Outcome, width: int) -> list[Content]:
    if not outcome.gate:
        return []
    passed = [name for name, check in outcome.gate.items() if check.verdict is Verdict.PASS]
    found = folded("gate", f"{len(passed)} of {len(outcome.gate)} checks passed", width)
    for name, check in outcome.gate.items():
        if check.verdict is not Verdict.PASS:
            found += folded(
                "", f"{check.verdict} {name.replace('_', ' ')}: {words.safe(check.reason)}", width, words.BAD
            )
    for name, why in outcome.not_planned.items():
        found += folded("not run", f"{name.replace('_', ' ')}: {words.safe(why)}", width, words.WARN)
    return found
