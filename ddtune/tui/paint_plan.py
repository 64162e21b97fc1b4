"""A plan before anything is touched: pure drawing."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from ddtune.rollout.model import Finding, Plan
from ddtune.tui import words
from ddtune.tui.words import folded

LADDER = "concurrency_"


def lines(plan: Plan, standing: str | None, forced: bool, width: int) -> list[Content]:
    """From, to, what differs, what speaks against it, who is hit, how it is judged and how it goes back."""
    refused = plan.refused
    found = [_head(plan, standing, width), words.line("")]
    if refused is not None:
        cause = words.safe(refused.cause or "unknown").replace("_", " ")
        found += [words.line((f" REFUSED: {cause} ", words.LOUD)), words.line("")]
    elif forced:
        found += [words.line((" FORCED: goes on against what is known to be bad ", words.LOUD)), words.line("")]
    found += _findings(plan.findings, width)
    found += _changes(plan, width)
    if refused is not None:
        way = "f plans it with force · " if forceable(plan) else ""
        return [*found, *folded("next", f"{way}q goes back; nothing was touched", width, words.NOTE)]
    return found + _canary(plan, width) + _users(plan, width) + _gate(plan, width) + _back(plan, width)


def forceable(plan: Plan) -> bool:
    """Whether ``force`` would lift everything that blocks this plan."""
    blocking = [finding for finding in plan.findings if finding.blocks]
    return bool(blocking) and all(finding.forceable for finding in blocking)


def _head(plan: Plan, standing: str | None, width: int) -> Content:
    target = words.word(plan.target.profile)
    known = f" ({standing})" if standing else ""
    if plan.kind == "restart":
        parts: tuple[words.Part, ...] = (" Restart ", (target, "bold"), known)
    else:
        verb = "Roll back" if plan.kind == "rollback" else "Switch"
        parts = (f" {verb} from ", (words.word(plan.origin.profile), "bold"), " to ", (target, "bold"), known)
    return words.fit(words.line(*parts, (f"   {words.safe(plan.host)} / {words.safe(plan.unit)}", words.MUTED)), width)


def _findings(findings: Sequence[Finding], width: int) -> list[Content]:
    found = []
    for finding in findings:
        label, style = ("refused", words.BAD) if finding.blocks else ("note", words.WARN)
        # The command line's way to insist has a key here.
        text = finding.text.replace("--force", "f") if finding.forceable else finding.text
        found += folded(label, words.safe(text), width, style)
    return found


def _changes(plan: Plan, width: int) -> list[Content]:
    if not plan.changes:
        return folded("changes", "nothing: the same release starts again", width)
    found = []
    for number, change in enumerate(plan.changes):
        found += folded("" if number else "changes", words.safe(change), width, "bold")
    return found


def _canary(plan: Plan, width: int) -> list[Content]:
    said = plan.canary
    if said is None:
        return []
    at = f"at budget {said.budget}"
    if said.verdict is None:
        ask = f"ddtune canary {words.safe(plan.host)} --budgets {said.budget}"
        return folded("canary", f"not asked {at}: {ask} restarts nothing", width, words.NOTE)
    style = words.GOOD if said.verdict == "sound" else words.WARN
    verdict = words.safe(said.verdict).replace("_", " ")
    return folded("canary", f"{verdict} {at}: {words.safe(said.reason)}", width, style)


def _users(plan: Plan, width: int) -> list[Content]:
    running = f"{words.number(plan.running)} running: waited for up to {words.span(plan.drain_s)}, then cut"
    found = folded("users", f"{running} · {words.number(plan.queued)} queued: cut", width)
    if plan.traffic == "open":
        seen, style = "users get the trial's answers before it is judged (traffic = open)", words.WARN
    else:
        seen, style = "no user gets an answer before the quick gate has passed (traffic = held)", ""
    found += folded("", seen, width, style)
    if plan.expected_start_s is None:
        return found + folded("downtime", f"{words.NONE}: this host has no start in its history yet", width)
    about = f"about {words.span(plan.expected_start_s)} ({plan.expected_start_why})"
    return found + folded("downtime", about, width)


def _gate(plan: Plan, width: int) -> list[Content]:
    found = folded("gate", f"{', '.join(_planned(plan))}; then a soak of {words.span(plan.soak_s)}", width)
    for name, why in plan.not_planned.items():
        found += folded("not run", f"{name.replace('_', ' ')}: {words.safe(why)}", width, words.WARN)
    return found


def _planned(plan: Plan) -> list[str]:
    """The checks by name; the steps of the ladder in one."""
    steps = [name.removeprefix(LADDER) for name in plan.gate if name.startswith(LADDER)]
    others = [name.replace("_", " ") for name in plan.gate if name != "soak" and not name.startswith(LADDER)]
    return others + ([f"ladder at C = {', '.join(steps)}"] if steps else [])


def _back(plan: Plan, width: int) -> list[Content]:
    stable = words.word(plan.stable.profile)
    return folded(
        "goes back",
        f"to {stable}, by the host itself: at once on a fault or a failed check, {words.span(plan.lease_s)} after this "
        f"screen loses the host, and {words.span(plan.confirm_deadline_s)} after the start at the latest",
        width,
        "bold",
    )
