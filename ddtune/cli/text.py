"""Plain text for people: one plan, its progress, one outcome."""

from __future__ import annotations

from ddtune.cli.report import clean
from ddtune.onhost.txn_model import VISIT
from ddtune.rollout.model import Outcome, Plan, Progress

NONE = "—"


def number(value: float | None, digits: int = 0, unit: str = "") -> str:
    """A number with its unit, or a dash when there is none."""
    return NONE if value is None else f"{value:,.{digits}f}{unit}"


def word(value: str | None) -> str:
    """A word from the host made safe, or a dash."""
    return NONE if value is None else clean(value)


def plan_text(plan: Plan) -> str:
    """What a switch would do, before the question."""
    back = plan.stable.profile or (plan.stable.release or NONE)[:12]
    way = f"{word(plan.origin.profile)} → {word(plan.target.profile)}"
    unchanged = NONE if plan.kind == "switch" else "nothing; the same release again"
    lines = [
        f"{plan.kind} {clean(plan.host)} / {clean(plan.unit)}: {way}" + ("  (simulated)" if plan.simulated else ""),
        "changes:",
        *(f"  {clean(change)}" for change in plan.changes or (unchanged,)),
    ]
    lines += [f"{'refused' if finding.blocks else 'note'}: {clean(finding.text)}" for finding in plan.findings]
    lines += [canary_text(plan)] if plan.canary is not None else []
    lines += [
        f"requests: {number(plan.running)} running, {number(plan.queued)} queued; drained for {plan.drain_s:.0f} s, "
        "then cut",
        _gate(plan),
        f"answers are compared with {clean(plan.reference)}",
        _users(plan),
        "downtime: "
        + (f"about {plan.expected_start_s:.0f} s ({plan.expected_start_why})" if plan.expected_start_s else NONE),
        f"back to {word(back)} by the host itself: {plan.lease_s:.0f} s after it hears nothing more of this ddtune, "
        f"{plan.confirm_deadline_s:.0f} s at the latest",
    ]
    return "\n".join(lines)


def _gate(plan: Plan) -> str:
    if plan.kind == VISIT:
        asked = word(plan.target.profile)
        return f"gate: none for {asked}, which is only asked; afterwards stable has to pass the quick gate"
    left_out = "".join(f"; not planned: {name} ({why})" for name, why in plan.not_planned.items())
    return f"gate: {', '.join(plan.gate)}; soak {plan.soak_s:.0f} s{left_out}"


def _users(plan: Plan) -> str:
    visit = plan.kind == VISIT
    if plan.traffic == "open":
        trial, until = (word(plan.target.profile), "asked") if visit else ("the trial", "gated")
        return f"users see {trial}'s answers while it is {until}"
    until = "stable starts again" if visit else "the quick gate has passed"
    return (
        f"other machines are refused from the stop until {until}; what connects over the host's own loopback, such as "
        "a proxy there, still reaches the trial"
    )


def canary_text(plan: Plan) -> str:
    """What the graph canary said of the plan's budget, or how to ask it."""
    assert plan.canary is not None
    if plan.canary.verdict is None:
        return f"graph canary: not asked at budget {plan.canary.budget}; {canary_command(plan)} does, without a restart"
    verdict = plan.canary.verdict.replace("_", " ")
    return f"graph canary at budget {plan.canary.budget}: {word(verdict)} ({clean(plan.canary.reason)})"


def canary_command(plan: Plan) -> str:
    """What to type for it."""
    budget = plan.canary.budget if plan.canary else ""
    return f"`ddtune canary {clean(plan.host)} --budgets {budget}`"


def progress_text(step: Progress) -> str:
    """One line of a running transaction; nothing for what only a screen shows."""
    state = "done" if step.done else "…"
    if step.gate is not None:
        return ""
    verdict = f"  {step.check.name}: {step.check.verdict} ({clean(step.check.reason)})" if step.check else ""
    left = "" if step.lease_in_s is None else f"  [host goes back by itself in {step.lease_in_s:.0f} s if this dies]"
    return f"{step.phase:10} {step.seconds:6.1f} s {state} {clean(step.text)}{verdict}{left}"


def outcome_text(outcome: Outcome) -> str:
    """How it ended, why, and what the host now runs."""
    head = outcome.outcome.replace("_", " ").upper()
    lines = [f"{head}: {clean(outcome.message)}" if outcome.message else head]
    if outcome.cause:
        lines.append(f"because {clean(outcome.cause)}")
    lines += [
        f"  {clean(line.source)}{' ' + clean(line.rank) if line.rank else ''}: {clean(line.text)}"
        for line in outcome.evidence[:8]
    ]
    if outcome.gate:
        lines += [f"  not judged: {name} ({clean(why)})" for name, why in outcome.not_planned.items()]
    stable = outcome.stable.profile or (outcome.stable.release or NONE)[:12]
    lines.append(
        f"stable is {word(stable)}; down {number(outcome.downtime_s, 1, ' s')}, "
        f"{number(outcome.requests_cut)} requests cut, {number(outcome.served_ungated)} answers served ungated"
    )
    return "\n".join(lines)
