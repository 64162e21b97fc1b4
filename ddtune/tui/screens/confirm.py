"""The last question before a switch."""

from __future__ import annotations

from ddtune.rollout.model import Plan
from ddtune.tui import words
from ddtune.tui.desk import Desk
from ddtune.tui.screens.dialog import Dialog


class ConfirmScreen(Dialog):
    """Cancel is focused; a protected host asks for its name."""

    def __init__(self, desk: Desk, plan: Plan, *, forced: bool) -> None:
        target = words.word(plan.target.profile)
        verb = "Restart" if plan.kind == "restart" else "Switch to"
        hit = (
            f"{words.number(plan.running)} running requests are waited for up to {words.span(plan.drain_s)}, then cut."
        )
        text = f"{verb} {target} on {plan.host}? The service stops and starts again. {hit}"
        if forced:
            text = f"FORCED against what is known to be bad. {text}"
        name = desk.config.name if desk.config.protected else None
        super().__init__(f"{verb} {target}", text, yes=verb.split(" ")[0], name=name, alive=lambda: desk.view().link_up)
