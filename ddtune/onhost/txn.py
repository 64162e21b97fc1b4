"""The states of a transaction and the only legal ways between them.

``step(txn, event) -> (txn, effects)`` is pure. An event that is not legal now changes nothing and gives a
:class:`Refused`. Whoever steps holds the unit's lock, reads the clock under it, and carries the effects out
(:mod:`.ledger`); helper, guard and choose have no other way to change a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from . import txn_back, txn_forward
from .txn_back import Step, idle
from .txn_events import (
    Abort,
    Arm,
    Chosen,
    Commit,
    Confirm,
    DropTrial,
    Effect,
    Ended,
    Event,
    Evidence,
    Fail,
    Fatal,
    Finish,
    GaveUp,
    HostAction,
    Launch,
    Mark,
    Quarantine,
    Ready,
    Reboot,
    Record,
    Refused,
    Renew,
    Restored,
    RestoreFailed,
    Restoring,
    Settle,
    SetTrial,
    Shout,
    Soak,
    Swap,
    Tick,
)
from .txn_model import (
    ARMED,
    COMMITTED,
    COMMITTING,
    DECIDED,
    HOST_ACTION_REQUIRED,
    IDLE,
    LIVE,
    ROLLBACK_FAILED,
    ROLLED_BACK,
    SOAK,
    STATES,
    TRIAL,
    TRYING,
    Restore,
    Txn,
    TxnError,
    busy,
    expired,
    from_json,
    to_json,
    who,
)

__all__ = [  # the one door to the transaction for all other modules and rooms
    "ARMED",
    "COMMITTED",
    "COMMITTING",
    "DECIDED",
    "HOST_ACTION_REQUIRED",
    "IDLE",
    "LIVE",
    "ROLLBACK_FAILED",
    "ROLLED_BACK",
    "SOAK",
    "STATES",
    "TRIAL",
    "TRYING",
    "Abort",
    "Arm",
    "Chosen",
    "Commit",
    "Confirm",
    "DropTrial",
    "Effect",
    "Ended",
    "Event",
    "Evidence",
    "Fail",
    "Fatal",
    "Finish",
    "GaveUp",
    "HostAction",
    "Launch",
    "Mark",
    "Quarantine",
    "Ready",
    "Reboot",
    "Record",
    "Refused",
    "Renew",
    "Restore",
    "RestoreFailed",
    "Restored",
    "Restoring",
    "SetTrial",
    "Settle",
    "Shout",
    "Soak",
    "Step",
    "Swap",
    "Tick",
    "Txn",
    "TxnError",
    "busy",
    "expired",
    "from_json",
    "refusal",
    "step",
    "to_json",
    "who",
]  # fmt: skip


def step(txn: Txn | None, event: Event) -> Step:
    """What ``event`` makes of ``txn``, and what must be done for it. Time that has run out is counted first."""
    if isinstance(event, Arm):
        return txn_forward.arm(txn, event)
    if isinstance(event, Reboot):
        return txn_forward.reboot(txn, event)
    if txn is None:
        return None, (Launch("stable"),) if isinstance(event, Chosen) else (idle(),)
    if not isinstance(event, Chosen) and event.op not in (None, txn.op):
        return txn, (_fenced(txn, event.op or ""),)
    if isinstance(event, Chosen) and txn.boot_id != event.boot_id:
        new, effects = txn_forward.reboot(txn, Reboot(event.at, event.boot_id))
        return new, (*effects, Launch("stable"))
    late = expired(txn, event.at)
    if late:
        blamed = late == "deadline_expired" and txn.ready
        txn, decided = txn_back.roll_back(txn, event.at, late, (), blamed)
    new, effects = _HANDLERS[type(event)](txn, event)
    return new, (*decided, *effects) if late else effects


def refusal(effects: Sequence[Effect]) -> Refused | None:
    """The refusal among ``effects``, if the event was refused."""
    return next((effect for effect in effects if isinstance(effect, Refused)), None)


def _fenced(txn: Txn, op: str) -> Refused:
    running = f"{txn.op} of {who(txn)}" if busy(txn) else "none"
    return Refused("busy" if busy(txn) else "unknown", f"{op} is not the running transaction ({running})")


def _tick(txn: Txn, _event: Tick) -> Step:
    return txn, ()


_HANDLERS: dict[type, Callable[[Txn, Any], Step]] = {
    Swap: txn_forward.swap,
    Mark: txn_forward.mark,
    Chosen: txn_forward.chosen,
    Ready: txn_forward.ready,
    Soak: txn_forward.soak,
    Renew: txn_forward.renew,
    Confirm: txn_forward.confirm,
    Finish: txn_forward.finish,
    Fail: txn_back.fail,
    Abort: txn_back.abort,
    Fatal: txn_back.fatal,
    Ended: txn_back.ended,
    HostAction: txn_back.host_action,
    Tick: _tick,
    Restoring: txn_back.restoring,
    Restored: txn_back.restored,
    RestoreFailed: txn_back.restore_failed,
    GaveUp: txn_back.gave_up,
    Settle: txn_back.settle,
}
