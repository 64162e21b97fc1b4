"""How a transaction ended: pure drawing."""

from __future__ import annotations

from textual.content import Content

from ddtune.engine.log import body_of, parse
from ddtune.gate.model import Verdict
from ddtune.rollout.model import Outcome, Plan
from ddtune.tui import words
from ddtune.tui.words import folded

STYLES = {"committed": f"bold {words.GOOD}", "rolled_back": f"bold {words.WARN}", "refused": f"bold {words.WARN}"}
EVIDENCE_SHOWN = 5
INDENT = 12
NEXT = {
    "committed": "watch it; an unasked end within its days of probation goes back by itself (b goes back by hand)",
    "rolled_back": "read the evidence before you plan it again (H shows it again, l the log)",
    "refused": "nothing was touched; read why above",
    "rollback_failed": "log in now and run /usr/local/sbin/ddtune-rollback, then look at the unit's journal",
    "host_action_required": "do what the host asks for above, then restart the stable release",
    "unknown": "wait for the link: the host decides by itself, and H shows how",
}
QUARANTINED = "leave it; the failed release is quarantined with its evidence (H shows it again, l the log)"
NEXT_BY_CAUSE = {
    "aborted": "nothing has to be mended: it was asked for; plan it again whenever it suits (s)",
    "operator_request": "nothing has to be mended: it was asked for",
    "lease_lost": "mend the link to the host first, then plan it again (s): the profile is not to blame",
    "link_lost": "mend the link to the host first, then plan it again (s): the profile is not to blame",
    "gate_inconclusive": "the gate could not finish, which is no verdict on the profile: plan it again (s)",
    "deadline_expired": "it took longer than its deadline; see which phase did, then raise the limit or leave it",
    "start_hang": "see in the log (l) after which line the start stood still",
    "bad_flags": "the engine does not take these flags: mend the profile",
    "known_bad": "leave it, or plan it with f in spite of what is known",
    "quarantined": "leave it, or plan it with f in spite of what is known",
    "busy": "wait until the other change is over; b aborts it",
    "drift": "b restarts the stable release; what was changed by hand is then gone",
}


def title(outcome: Outcome) -> str:
    """The outcome in a few words."""
    return outcome.outcome.replace("_", " ").upper()


def lines(outcome: Outcome, plan: Plan | None, width: int) -> list[Content]:
    """How it ended, why, on what evidence, what differed, what it cost, what is kept, and the next sensible step."""
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
    changes = plan.changes if plan is not None and outcome.cause else ()
    for number, change in enumerate(changes):
        found += folded("" if number else "differs", words.safe(change), width, "bold")
    found += _gate(outcome, width)
    if outcome.outcome != "refused":
        found += folded(
            "cost",
            f"down {words.span(outcome.downtime_s)} · {words.number(outcome.requests_cut)} requests cut · "
            f"{words.number(outcome.served_ungated)} answers served ungated",
            width,
        )
    if outcome.op and outcome.outcome != "committed":
        host = words.safe(plan.host) if plan is not None else "HOST"
        kept = f"release, log and readings: ddtune evidence {host} {words.safe(outcome.op)}"
        found += folded("kept", kept, width)
    return [*found, *folded("next", _next(outcome), width, words.NOTE)]


def _next(outcome: Outcome) -> str:
    if outcome.outcome in ("rolled_back", "refused") and outcome.cause in NEXT_BY_CAUSE:
        return NEXT_BY_CAUSE[outcome.cause]
    if outcome.outcome == "rolled_back" and outcome.quarantined:
        return QUARANTINED
    return NEXT.get(outcome.outcome, "look at the host's history (H)")


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
