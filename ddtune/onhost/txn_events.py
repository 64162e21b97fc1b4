"""What may happen to a transaction, and what has to be done for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from .txn_model import Txn

Evidence = Mapping[str, Any]


@dataclass(frozen=True)
class Arm:
    """Begin ``txn``. All other events carry ``at``, boottime seconds, and the op that they mean.

    ``known`` says that the host's history has the op of ``txn`` already.
    """

    at: float
    txn: Txn
    known: bool = False


@dataclass(frozen=True)
class Swap:
    """From here on a start of the unit runs the candidate."""

    at: float
    op: str


@dataclass(frozen=True)
class Mark:
    """Note when a step happened; ``started`` also sets the start deadline running, ``lifted`` opens a held trial."""

    at: float
    op: str
    name: str


@dataclass(frozen=True)
class Chosen:
    """The unit starts, as ``invocation``, on the boot ``boot_id``: what shall it run?

    ``asked`` says that the start before it was ended by somebody on purpose, ``evidence`` what is known of whom.
    """

    at: float
    boot_id: str
    invocation: str
    asked: bool = False
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class Ready:
    at: float
    op: str


@dataclass(frozen=True)
class Soak:
    at: float
    op: str


@dataclass(frozen=True)
class Renew:
    at: float
    op: str


@dataclass(frozen=True)
class Confirm:
    """The gate has passed on the start ``invocation``; ``running`` is the start that the unit is in now."""

    at: float
    op: str
    invocation: str
    running: str


@dataclass(frozen=True)
class Finish:
    """Every effect of the intent COMMITTING has been carried out."""

    at: float
    op: str


@dataclass(frozen=True)
class Fail:
    """The controller has found the candidate bad, or gives up."""

    at: float
    op: str
    cause: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class Abort:
    """An operator wants out. ``op`` None means whichever runs; ``cause`` is ``aborted`` or ``operator_request``."""

    at: float
    op: str | None = None
    cause: str = "aborted"


@dataclass(frozen=True)
class Fatal:
    """A line of the journal says that the watched start is lost."""

    at: float
    op: str
    cause: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class Ended:
    """The watched start is over: another invocation, more restarts, or no process; ``cause`` by how it ended."""

    at: float
    op: str
    cause: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class HostAction:
    """Only a person can help: ``action`` says what to do."""

    at: float
    op: str
    cause: str
    action: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class Tick:
    """Time has passed."""

    at: float
    op: str


@dataclass(frozen=True)
class Reboot:
    """The host runs as the boot ``boot_id`` now."""

    at: float
    boot_id: str


@dataclass(frozen=True)
class Restoring:
    """The guard goes on to ``phase`` of bringing stable back."""

    at: float
    op: str
    phase: str


@dataclass(frozen=True)
class Restored:
    """Stable serves and a generation came back as expected."""

    at: float
    op: str


@dataclass(frozen=True)
class RestoreFailed:
    """This try to bring stable back is lost; ``final`` when another try could not help."""

    at: float
    op: str
    cause: str
    evidence: tuple[Evidence, ...] = ()
    final: bool = False


@dataclass(frozen=True)
class GaveUp:
    """The unit has been stopped after a rollback that failed."""

    at: float
    op: str


@dataclass(frozen=True)
class Settle:
    """The controller's quick gate on stable after a rollback."""

    at: float
    op: str
    ok: bool
    cause: str = "unknown"
    evidence: tuple[Evidence, ...] = ()


Event = Union[
    Arm, Swap, Mark, Chosen, Ready, Soak, Renew, Confirm, Finish, Fail, Abort, Fatal, Ended, HostAction,
    Tick, Reboot, Restoring, Restored, RestoreFailed, GaveUp, Settle,
]  # fmt: skip


@dataclass(frozen=True)
class Refused:
    """The event is not legal now; nothing that it asked for has happened."""

    cause: str
    message: str
    detail: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Launch:
    """What the start that asked shall run: ``trial`` or ``stable``."""

    which: str


@dataclass(frozen=True)
class SetTrial:
    """Name the candidate in the volatile folder."""

    release: str


@dataclass(frozen=True)
class DropTrial:
    """Remove that name."""


@dataclass(frozen=True)
class Commit:
    """Move stable to ``release`` and previous to ``previous``, open the probation; safe to repeat."""

    release: str
    previous: str
    probation_s: float


@dataclass(frozen=True)
class Quarantine:
    """Keep the candidate from being tried again."""

    release: str
    cause: str


@dataclass(frozen=True)
class Record:
    """One line of the history; an end line is written once for an op."""

    event: str
    outcome: str | None = None
    cause: str | None = None
    text: str = ""


@dataclass(frozen=True)
class Shout:
    """Say it where somebody on the host sees it: journal at crit, and the console."""

    text: str


Effect = Union[Refused, Launch, SetTrial, DropTrial, Commit, Quarantine, Record, Shout]
