"""The one way to change a transaction: read, step and carry out, under the unit's lock.

Order on disk makes each step safe to lose power in. What leads forward is written before the state that claims it
(``armed`` in the history, the moved link before COMMITTED), what leads back after the state that decided it; an intent
left open is rolled forward by whoever comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from . import clock, releases, store
from .paths import UnitPaths
from .shout import shout
from .txn import (
    COMMITTED,
    COMMITTING,
    DECIDED,
    Commit,
    DropTrial,
    Effect,
    Event,
    Finish,
    Quarantine,
    Reboot,
    Record,
    Refused,
    SetTrial,
    Shout,
    Txn,
    TxnError,
    from_json,
    refusal,
    step,
    to_json,
)


@dataclass(frozen=True)
class Applied:
    """The transaction after an event, and the effects that were carried out."""

    txn: Txn | None
    effects: tuple[Effect, ...]

    @property
    def refused(self) -> Refused | None:
        return refusal(self.effects)


def load(paths: UnitPaths) -> Txn | None:
    """The transaction as it lies on the host; None when there is none. Raises TxnError when it cannot be read."""
    found = store.read_json(paths.txn)
    if found is None:
        with suppress(FileNotFoundError), open(paths.txn, "rb"):
            raise TxnError(f"{paths.txn} is damaged")
        return None
    return from_json(found)


def apply(paths: UnitPaths, make: Callable[[float], Event], limit_s: float = 10.0) -> Applied:
    """Take the event that ``make`` makes of the boottime, read under the lock, through ``step``.

    Raises TxnError, store.LockTimeoutError and store.DiskFull; then nothing has been decided.
    """
    with store.locked(paths, limit_s):
        txn = _recovered(paths, load(paths))
        event = _cleaned(paths, make(clock.boottime()))
        new, effects = step(txn, event)
        carry_out(paths, txn, new, effects)
        if new is not None and new.state == COMMITTING:
            new = _finish(paths, new)
        return Applied(new, effects)


def _cleaned(paths: UnitPaths, event: Any) -> Event:
    """``event`` with neither keys nor users' words in its evidence, which is kept where everybody may read it."""
    evidence = getattr(event, "evidence", ())
    if not evidence:
        return cast("Event", event)
    try:
        # Imported here, since every start of the service waits for this module and needs none of it.
        from .scrub import cleaned

        kept = cleaned(paths, evidence)
    except Exception:  # noqa: BLE001 (nothing about its evidence may stop a way back: what cannot be cleaned is not kept)
        kept = ()
    return cast("Event", replace(event, evidence=kept))


def rescue(paths: UnitPaths, txn: Txn, make: Callable[[float], Event]) -> Applied:
    """Put ``txn``, as its guard remembers it, back in the place of a file that is damaged or gone, and step on."""
    with store.locked(paths):
        try:
            lost = load(paths) is None
        except TxnError:
            lost = True
        if lost:
            write(paths, txn)
    return apply(paths, make)


def write(paths: UnitPaths, txn: Txn) -> None:
    """Write txn.json durably."""
    store.write_json(paths.txn, to_json(txn))


def _recovered(paths: UnitPaths, txn: Txn | None) -> Txn | None:
    if txn is None:
        return None
    boot_id = clock.boot_id()
    if txn.boot_id != boot_id:
        new, effects = step(txn, Reboot(clock.boottime(), boot_id))
        carry_out(paths, txn, new, effects)
        assert new is not None
        txn = new
    elif txn.state == COMMITTING:
        return _finish(paths, txn)
    if txn.settled:
        # The state is written before the line that closes the op; a crash between the two ends here.
        _unfinished(paths, txn)
    return txn


def _finish(paths: UnitPaths, txn: Txn) -> Txn:
    new, effects = step(txn, Finish(clock.boottime(), txn.op))
    carry_out(paths, txn, new, effects)
    assert new is not None
    return new


def _unfinished(paths: UnitPaths, txn: Txn) -> None:
    with suppress(FileNotFoundError):
        store.remove(paths.trial)
    if not any(line.get("op") == txn.op and line.get("event") in releases.ENDS for line in releases.history(paths, 50)):
        releases.add_history(paths, history_line(txn, Record(txn.state.lower(), txn.state.lower(), txn.cause)))


def carry_out(paths: UnitPaths, old: Txn | None, new: Txn | None, effects: tuple[Effect, ...]) -> None:
    """Write ``new`` and do what ``effects`` say, in the order that survives a crash at any point."""
    back = new is not None and new.state in DECIDED and new.state != COMMITTED
    if new is None or new == old:
        _perform(paths, new, effects)
    elif back:
        write(paths, new)
        _perform_at_all_costs(paths, new, effects)
    else:
        _perform(paths, new, effects)
        write(paths, new)


def _perform_at_all_costs(paths: UnitPaths, txn: Txn, effects: tuple[Effect, ...]) -> None:
    """Do each effect; a full disk must not stand in the way of a rollback. What is missing then is made up later."""
    if not effects:
        return
    try:
        _perform(paths, txn, effects[:1])
    except (store.DiskFull, OSError) as error:
        shout(f"{paths.unit}: {error}")
    _perform_at_all_costs(paths, txn, effects[1:])


def _perform(paths: UnitPaths, txn: Txn | None, effects: tuple[Effect, ...]) -> None:
    for effect in effects:
        if isinstance(effect, SetTrial):
            store.swap_link(paths.trial, paths.release_dir(effect.release))
        elif isinstance(effect, DropTrial):
            store.remove(paths.trial)
        elif isinstance(effect, Shout):
            shout(effect.text)
        elif txn is None:
            continue
        elif isinstance(effect, Commit):
            _commit(paths, txn, effect)
        elif isinstance(effect, Quarantine):
            releases.quarantine(paths, effect.release, _verdict(txn, effect.cause))
        elif isinstance(effect, Record):
            releases.add_history(paths, history_line(txn, effect))


def _commit(paths: UnitPaths, txn: Txn, effect: Commit) -> None:
    if effect.release == effect.previous:
        return
    now = clock.wall()
    probation = {
        "release": effect.release,
        "previous": effect.previous,
        "profile": txn.candidate_profile,
        "op": txn.op,
        "at": now,
        "until": now + effect.probation_s,
        "ended": None,
    }
    releases.set_previous(paths, effect.previous)
    store.write_json(paths.probation, probation)
    releases.set_stable(paths, effect.release)


def _verdict(txn: Txn, cause: str) -> dict[str, Any]:
    return {"profile": txn.candidate_profile, "op": txn.op, "cause": cause, "evidence": [dict(e) for e in txn.evidence]}


def history_line(txn: Txn, record: Record) -> dict[str, Any]:
    """The line of the history that ``record`` stands for."""
    return {
        "op": txn.op,
        "kind": txn.kind,
        "event": record.event,
        "outcome": record.outcome,
        "cause": record.cause,
        "from": {"profile": txn.stable_profile, "release": txn.stable},
        "to": {"profile": txn.candidate_profile, "release": txn.candidate},
        "owner": dict(txn.owner),
        "force": txn.force,
        "evidence": [dict(entry) for entry in txn.evidence],
        "text": record.text,
        # Seconds after the arm: what a start takes here is learned from them.
        "times": {name: round(at - txn.armed_at, 3) for name, at in txn.times.items()},
    }
