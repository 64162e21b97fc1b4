"""What a transaction is doing, what happens if this screen goes away, and how it ended: pure drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from ddtune.live.snapshot import Snapshot
from ddtune.rollout.model import Outcome, Progress
from ddtune.tui import words

OUTCOME_STYLE = {
    "committed": "bold green",
    "rolled_back": "bold yellow",
    "refused": "bold yellow",
    "rollback_failed": "bold white on red",
    "host_action_required": "bold white on red",
    "unknown": "bold white on red",
}
LOUD = {"ROLLBACK_FAILED": "ROLLBACK FAILED", "HOST_ACTION_REQUIRED": "HOST ACTION REQUIRED"}


def banner(snapshot: Snapshot) -> Text | None:
    """The line that comes first when a transaction runs or ended badly; None when there is nothing to say."""
    txn = snapshot.txn
    if txn is None:
        return _incident(snapshot)
    state = str(txn.get("state"))
    if state in LOUD:
        action = txn.get("action") or txn.get("cause") or "a person must act"
        return Text(f" {LOUD[state]}: {words.safe(action)} ", style="bold white on red")
    if not txn.get("settled"):
        owner = txn.get("owner") or {}
        who = f"{words.word(owner.get('who'))} on {words.word(owner.get('host'))}"
        target = txn.get("candidate_profile") or str(txn.get("candidate"))[:12]
        return Text(
            f" {words.safe(state)} {words.safe(target)}, by {who}: {words.word(txn.get('op'))} ",
            style="bold black on cyan",
        )
    return _incident(snapshot)


def _incident(snapshot: Snapshot) -> Text | None:
    if not snapshot.incidents:
        return None
    incident = snapshot.incidents[-1]
    where = f" on {incident.rank}" if incident.rank else ""
    return Text(f" incident: {incident.cause}{where} ", style="bold black on yellow")


def progress_lines(steps: Sequence[Progress]) -> list[Text]:
    """One line a phase, the running one marked."""
    latest: dict[str, Progress] = {}
    for step in steps:
        known = latest.get(step.phase)
        latest[step.phase] = step if step.check is None or known is None else known
    lines = []
    for name, step in latest.items():
        mark, style = ("✓", "green") if step.done else ("▸", "bold cyan")
        lines.append(Text(f"{mark} {name:<16} {step.seconds:7.1f} s  {step.text}", style=style))
        lines += [_check(one) for one in steps if one.check is not None and one.phase == name]
    return lines


def _check(step: Progress) -> Text:
    assert step.check is not None
    verdict = str(step.check.verdict)
    style = {"pass": "green", "fail": "bold red"}.get(verdict, "bold yellow")
    return Text(f"    {verdict:<12} {step.check.name:<16} {words.safe(step.check.reason)}", style=style)


def closing_line(steps: Sequence[Progress], stable: str | None) -> Text:
    """What happens if the laptop is closed now."""
    known = [step for step in steps if step.lease_in_s is not None]
    if not known:
        return Text("If you close the laptop now nothing has happened yet: the host is untouched.", style="bold")
    last = known[-1]
    deadline = "" if last.deadline_in_s is None else f", decided in {last.deadline_in_s:.0f} s at the latest"
    when = f"in {last.lease_in_s:.0f} s{deadline}"
    return Text(f"If you close the laptop now: the host goes back to {words.word(stable)} {when}.", style="bold")


def outcome_lines(outcome: Outcome) -> list[Text]:
    """How it ended, why, on what evidence, and the next sensible step."""
    lines = [
        Text(outcome.outcome.replace("_", " ").upper(), style=OUTCOME_STYLE.get(outcome.outcome, "bold")),
        Text(words.safe(outcome.message)),
    ]
    if outcome.cause:
        lines.append(Text(f"because  {outcome.cause}", style="bold"))
    lines += [
        Text(f"         {words.safe(line.source)} {words.safe(line.rank or '')}: {words.safe(line.text)}")
        for line in outcome.evidence[:6]
    ]
    lines.append(
        Text(
            f"down {words.number(outcome.downtime_s, 1)} s · {words.number(outcome.requests_cut)} requests cut · "
            f"{words.number(outcome.served_ungated)} answers served ungated"
        )
    )
    lines.append(Text(f"next     {next_step(outcome)}"))
    return lines


def next_step(outcome: Outcome) -> str:
    """The next sensible thing to do."""
    return {
        "committed": "watch it; an unasked end within its days of probation goes back by itself",
        "rolled_back": "leave it; the failed release is quarantined with its evidence (H shows the history)",
        "refused": "nothing was touched; read why above",
        "rollback_failed": "log in and run /usr/local/sbin/ddtune-rollback, then look at the journal",
        "host_action_required": "do what the host asks for, then restart the stable release",
        "unknown": "wait for the link; the host decides by itself",
    }.get(outcome.outcome, "")


def history_lines(entries: Sequence[Mapping[str, Any]], width: int) -> list[Text]:
    """The newest first: what happened and why."""
    lines = []
    for entry in reversed(entries):
        target = (entry.get("to") or {}).get("profile")
        cause = f" because {words.word(entry['cause'])}" if entry.get("cause") else ""
        head = f"{words.word(entry.get('op'))}  {words.word(entry.get('event'))}  {words.word(target)}{cause}"
        lines.append(Text(words.clip(head, width)))
        lines += [
            Text(
                words.clip(f"    {words.word(line.get('source'))}: {words.word(line.get('text'))}", width), style="dim"
            )
            for line in (entry.get("evidence") or [])[:3]
        ]
    return lines
