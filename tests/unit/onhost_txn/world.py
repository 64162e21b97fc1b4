"""A host in small: the transaction, the links, what runs and what the history says, for exhaustive search."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ddtune.onhost import txn as t

STABLE, CANDIDATE = "stable-sha", "candidate-sha"
LEASE, DEADLINE = 2.0, 5.0
OPS = ("a", "b")


@dataclass(frozen=True)
class World:
    """``runs`` is what the unit's process was launched as, None when it is down; ``ends`` are ``(op, outcome)``."""

    txn: t.Txn | None = None
    stable: str = STABLE
    trial_link: bool = False
    runs: str | None = STABLE
    invocation: int = 0
    boot: int = 0
    now: float = 0.0
    opened: frozenset[str] = frozenset()
    confirmed: frozenset[str] = frozenset((STABLE,))
    ends: frozenset[tuple[str, str]] = frozenset()

    @property
    def key(self) -> object:
        """What makes two worlds the same: times relative to now, invocations by their role."""
        if self.txn is None:
            return dataclasses.astuple(replace(self, invocation=0, now=0.0))
        txn = self.txn
        rel = tuple(
            None if at is None else max(-1.0, at - self.now)
            for at in (txn.lease_until, txn.confirm_deadline, txn.start_deadline)
        )
        roles = tuple(
            None if name is None else name == str(self.invocation)
            for name in (txn.start_invocation, txn.trial_invocation, txn.stable_invocation)
        )
        restore = (txn.restore.phase, txn.restore.tries) if txn.restore else None
        flat = (txn.op, txn.state, txn.settled, txn.ready, txn.tries_left, txn.cause, txn.blamed, txn.boot_id, restore)
        rest = (self.stable, self.trial_link, self.runs, self.boot, self.opened, self.confirmed, self.ends)
        return (rel, roles, flat, rest)


def fresh(op: str, now: float, invocation: int, boot: int, stable: str = STABLE) -> t.Txn:
    return t.Txn(
        op=op,
        kind="switch",
        unit="u",
        owner={"who": op},
        boot_id=str(boot),
        armed_at=now,
        wall_at=now,
        candidate=CANDIDATE,
        stable=stable,
        lease_s=LEASE,
        lease_until=now + LEASE,
        confirm_deadline=now + DEADLINE,
        start_deadline_s=3.0,
        start_invocation=str(invocation),
    )


def apply(world: World, event: t.Event) -> World:
    """``event`` taken through step, with all effects carried out."""
    new, effects = t.step(world.txn, event)
    world = replace(world, txn=new)
    if new is not None and new.state == t.COMMITTING:
        if isinstance(event, t.Confirm):
            world = replace(world, confirmed=world.confirmed | {new.candidate})
        new, more = t.step(new, t.Finish(event.at, new.op))
        world, effects = replace(world, txn=new), (*effects, *more)
    for effect in effects:
        world = perform(world, effect)
    return world


def perform(world: World, effect: t.Effect) -> World:
    txn = world.txn
    if isinstance(effect, t.SetTrial):
        return replace(world, trial_link=True)
    if isinstance(effect, t.DropTrial):
        return replace(world, trial_link=False)
    if isinstance(effect, t.Commit):
        return replace(world, stable=effect.release)
    if isinstance(effect, t.Launch):
        assert effect.which == "stable" or txn is not None
        release = world.stable if effect.which == "stable" or txn is None else txn.candidate
        return replace(world, runs=release)
    if isinstance(effect, t.Record) and txn is not None:
        if effect.event == "armed":
            return replace(world, opened=world.opened | {txn.op})
        if effect.outcome is not None:
            return replace(world, ends=world.ends | {(txn.op, effect.outcome)}, opened=world.opened - {txn.op})
    return world


def start(world: World) -> World:
    """systemd starts the unit, by anybody's wish or after a crash."""
    world = replace(world, invocation=world.invocation + 1)
    return apply(world, t.Chosen(world.now, str(world.boot), str(world.invocation)))


def reboot(world: World, keep_run: bool) -> World:
    """The host restarts, which empties /run (on the embedded host it does not), and the unit starts."""
    world = replace(world, boot=world.boot + 1, runs=None)
    if not keep_run:
        ends = world.ends | {(op, "rolled_back") for op in world.opened}
        world = replace(world, txn=None, trial_link=False, ends=ends, opened=frozenset())
    return start(world)


def moves(world: World) -> Iterator[tuple[str, World]]:
    """Everything that may happen next."""
    now, txn = world.now, world.txn
    for seconds in (1.0, 3.0):
        yield f"wait {seconds:g}", replace(world, now=now + seconds)
    for op in OPS:
        if not any(end[0] == op for end in world.ends) and op not in world.opened:
            arm = t.Arm(now, fresh(op, now, world.invocation, world.boot, world.stable))
            if world.stable != CANDIDATE:
                yield f"arm {op}", apply(world, arm)
    if world.boot < 1:
        yield "reboot", reboot(world, keep_run=False)
        yield "reboot of the embedded host", reboot(world, keep_run=True)
    if world.invocation < 3:
        yield "start", start(world)
        yield "stop", replace(world, runs=None)
    if txn is None:
        return
    inv = str(world.invocation)
    for op in (txn.op, "stranger"):
        events: dict[str, t.Event] = {
            "swap": t.Swap(now, op),
            "mark": t.Mark(now, op, "started"),
            "ready": t.Ready(now, op),
            "soak": t.Soak(now, op),
            "renew": t.Renew(now, op),
            "confirm": t.Confirm(now, op, inv, inv),
            "confirm of an old start": t.Confirm(now, op, str(world.invocation - 1), inv),
            "fail": t.Fail(now, op, "garbage_output"),
            "fail on stable": t.Settle(now, op, False),
            "fatal": t.Fatal(now, op, "cublas_error"),
            "ended": t.Ended(now, op, "engine_dead"),
            "drift": t.Ended(now, op, "drift"),
            "xid": t.HostAction(now, op, "xid_hardware", "reset"),
            "restored": t.Restored(now, op),
            "not restored": t.RestoreFailed(now, op, "start_failed"),
            "tick": t.Tick(now, op),
        }
        for name, event in events.items():
            yield f"{name} {op}", apply(world, event)
    yield "abort", apply(world, t.Abort(now))
    yield "guard", guard(world)


def guard(world: World) -> World:
    """The guard's next move, as restore.py makes it; nothing where there is nothing to do."""
    txn = world.txn
    if txn is None or txn.settled:
        return world
    if txn.state in t.LIVE:
        return apply(world, t.Tick(world.now, txn.op))
    assert txn.restore is not None, txn
    phase = txn.restore.phase
    if phase == "stop":
        return apply(replace(world, runs=None), t.Restoring(world.now, txn.op, "start"))
    if phase == "start":
        return apply(start(world), t.Restoring(world.now, txn.op, "check"))
    if phase == "give_up":
        return apply(replace(world, runs=None), t.GaveUp(world.now, txn.op))
    return apply(world, t.Restored(world.now, txn.op))


def broken(world: World) -> str | None:
    """The invariant that ``world`` breaks, or None."""
    txn = world.txn
    if world.stable not in world.confirmed:
        return "S2: stable points at a release that was never confirmed"
    outcomes: dict[str, set[str]] = {}
    for op, outcome in world.ends:
        outcomes.setdefault(op, set()).add(outcome)
    if any("committed" in found and len(found) > 1 for found in outcomes.values()):
        return "S3: one op was committed and rolled back"
    if world.trial_link and (txn is None or txn.state in t.DECIDED):
        return "S4: a trial is named with nothing on trial"
    if world.runs == CANDIDATE and world.stable != CANDIDATE and not t.busy(txn):
        return "S5: a release on trial runs with nobody to take it back"
    return None


def left_alone(world: World) -> World | None:
    """Where the guard alone takes ``world`` once the controller is gone; None when it never settles."""
    world = replace(world, now=world.now + 100)
    for _ in range(8):
        if not t.busy(world.txn):
            return world
        world = guard(world)
    return None


Check = Callable[[World], "str | None"]


def search(limit: int, check: Check = broken) -> tuple[int, list[str] | None]:
    """Breadth first over all worlds up to ``limit`` moves deep: how many, and the way to the first broken one."""
    first = World()
    ways: dict[object, tuple[str, ...]] = {first.key: ()}
    queue = deque([first])
    while queue:
        world = queue.popleft()
        way = ways[world.key]
        if len(way) >= limit:
            continue
        for name, new in moves(world):
            if new.key in ways:
                continue
            ways[new.key] = (*way, name)
            end = left_alone(new)
            found = check(new) or one_at_a_time(world, new) or (check(end) if end else "L1: never settles")
            if found:
                return len(ways), [*way, name, found]
            queue.append(new)
    return len(ways), None


def one_at_a_time(old: World, new: World) -> str | None:
    if t.busy(old.txn) and new.txn is not None and old.txn is not None and new.txn.op != old.txn.op:
        return "S1: a second transaction began while one was not settled"
    return None
