"""The other questions: back, unlock, abort, leave."""

from __future__ import annotations

from ddtune.tui import paint_run, words
from ddtune.tui.desk import UNLOCK_S, Desk
from ddtune.tui.screens.dialog import Dialog
from ddtune.tui.view import View


class BackScreen(Dialog):
    """One more key leads back: the way back is never made hard."""

    def __init__(self, desk: Desk) -> None:
        super().__init__("Roll back", _way_back(desk.view()), yes="Roll back", alive=lambda: desk.view().link_up)


def _way_back(view: View) -> str:
    service, host = view.snapshot.service, view.snapshot.host
    txn = view.txn
    if txn is not None:
        target, owner = words.word(txn.get("candidate_profile")), txn.get("owner") or {}
        whose = (
            ""
            if view.run and view.run.active
            else f" of {words.word(owner.get('who'))}@{words.word(owner.get('host'))}"
        )
        return f"Abort the trial{whose} of {target} and bring {host} back to {words.word(txn.get('stable_profile'))}?"
    if view.run is not None and view.run.active:
        return f"Stop before anything is touched? {host} stays on {words.word(service.stable_profile)}."
    before = (
        f"{service.previous_profile}, what was stable before" if service.previous_profile else "what was stable before"
    )
    return f"Bring {host} from {words.word(service.profile)} back to {before}? The service restarts behind the gate."


class AbortScreen(Dialog):
    """Stop the running transaction."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(
            "Abort", _way_back(desk.view()), yes="Abort", no="Let it go on", alive=lambda: desk.view().link_up
        )


class UnlockScreen(Dialog):
    """Changes for a while, for whoever knows which host this is."""

    def __init__(self, desk: Desk) -> None:
        name = desk.config.name
        text = f"Allow changes on {name} for {UNLOCK_S / 60:.0f} minutes."
        super().__init__("Unlock", text, yes="Unlock", no="Stay read-only", name=name)


class QuitScreen(Dialog):
    """Leaving in the middle of a change."""

    def __init__(self, view: View) -> None:
        text = "A change is under way and this is where it is judged and kept alive. "
        super().__init__(
            "Quit", text + paint_run.closing(view).replace("close the laptop", "quit"), yes="Quit", no="Stay"
        )
