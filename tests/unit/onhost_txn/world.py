"""A host in small, and everything that may happen to it, for an exhaustive search.

Real are the transaction, the ledger that carries it out, the launcher's and the late-crash code, and the guard's eye on
the unit. So that the search comes to an end, a world forgets what cannot matter any more:

- A transaction's time has passed or not, and it may pass at any moment: a host that sleeps is no more than that. The
  wall clock counts for the probation alone, and there it may say anything at any time.
- Starts are the last one or an earlier one, boots this one or another; there may be any number of both.
- Releases go by their part: S is stable when a transaction begins, C its candidate, P the one before. When the next
  begins they are named anew, so a host's whole life is searched and not its first transaction alone.
- Causes are aborted, weak (a line may explain them better), or any other. Who is blamed is left to the other tests.
- An op whose line was written and whose transaction was not, since the helper died in between, is left to the next
  boot; no other begins before.
- Every program may die behind each of its writes and find /var or /run full. That synced writes last and others may
  not is left to the crash points.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ddtune.onhost import txn as t
from ddtune.onhost import watch_unit
from ddtune.onhost.unit import UnitState
from tests.unit.onhost_txn import disk as d
from tests.unit.onhost_txn.disk import AHEAD, ELSEWHERE, HERE, NOW, PASSED, RAN, RUNS, Files
from tests.unit.onhost_txn.events import events

STABLE, CANDIDATE = "S", "C"
LEASE = 2.0
LOOK = t.Tick(NOW, "nobody")


class World(NamedTuple):
    """``runs`` is the release of the unit's process, None when it is down; ``asked`` how its last end came.

    A ``guard`` that does not live was killed, is gone with its boot, or was never started.
    """

    files: Files = Files()
    runs: str | None = STABLE
    asked: bool = True
    guard: bool = False

    def canonical(self) -> World:
        """The same world without what cannot matter any more. A guard leaves when nothing is left to do."""
        txn = self.files.held
        return World(
            self.files,
            self.runs and (CANDIDATE if self.runs == CANDIDATE else STABLE),
            self.asked or txn is None or txn.state not in t.LIVE,
            self.guard and t.busy(txn),
        )


Moves = Sequence[tuple[str, Files]]


def fresh(
    op: str, now: float, invocation: int | str, boot: int | str, candidate: str = CANDIDATE, tries: int = 1
) -> t.Txn:
    return t.Txn(
        op=op,
        kind="switch",
        unit="u",
        owner={"who": op},
        boot_id=str(boot),
        armed_at=now,
        wall_at=now,
        candidate=candidate,
        stable=STABLE,
        lease_s=LEASE,
        lease_until=now + LEASE,
        confirm_deadline=now + 5.0,
        start_deadline_s=3.0,
        start_invocation=str(invocation),
        tries_left=tries,
        probation_s=AHEAD,
    )


def named_anew(files: Files) -> tuple[Files, dict[str, str]]:
    """``files`` with op and releases named by their parts in the transaction that begins, and the new release names."""
    names = {files.probation[1] if files.probation else "": "P", files.stable: "S"}
    txn, probation = files.held, files.probation

    def to(name: str) -> str:
        return names.get(name, "X")

    new = Files(
        txn=txn and d.key(replace(txn, op="b", candidate=to(txn.candidate), stable=to(txn.stable))),
        trial=files.trial,
        probation=probation and (to(probation[0]), to(probation[1]), probation[2]),
        lines=tuple(("b", *line[1:3], to(line[3]), to(line[4])) for line in files.lines),
        chosen=files.chosen,
    )
    return new.canonical(), names


class Search:
    """Breadth first over all worlds. ``count`` is how many were seen, ``found`` the way to the first broken one."""

    def __init__(self) -> None:
        self._steps: dict[Files, Moves] = {}
        self._starts: dict[Files, Sequence[tuple[str, Files, str]]] = {}
        self._crashes: dict[Files, Moves] = {}
        self._after: dict[tuple[Files, t.Event], Files] = {}
        self._settles: dict[tuple[World, bool], str | None] = {}
        self._checked: dict[Files, str | None] = {}
        self.count = 0
        self.found: list[str] | None = None

    def run(self, limit: int = 1_000_000) -> Search:
        """Until no new world appears, the first broken one is found, or ``limit`` worlds were seen."""
        with d.mounted():
            first = World()
            came: dict[World, tuple[World, str] | None] = {first: None}
            queue = deque([first])
            while queue and self.found is None and len(came) < limit:
                world = queue.popleft()
                for name, new in self.moves(world):
                    new = new.canonical()
                    if new in came:
                        continue
                    came[new] = (world, name)
                    queue.append(new)
                    broken = _step_broken(world, name, new) or self.broken(new)
                    if broken:
                        self.found = [*_way(came, new), broken]
                        break
            self.count = len(came)
            self.transactions = len({files.txn for files in self._checked})
            self.ended = not queue
        return self

    # What may happen.

    def moves(self, world: World) -> Iterator[tuple[str, World]]:
        files = world.files
        busy = t.busy(files.held)
        for name, new in self.steps(files):
            if world.guard or not name.startswith("swap"):
                yield name, world._replace(files=new)
        yield from self.arms(world)
        if world.runs is not None:
            yield "somebody stops it", world._replace(runs=None, asked=True)
            for name, new in self.crashes(files):
                yield f"crash{name}", world._replace(files=new, runs=None, asked=False)
        for name, new, release in self.starts(files):
            yield f"start{name}", World(new, release, world.asked, world.guard)
        yield "power cut", rebooted(world, False)
        yield "reboot that keeps /run", rebooted(world, True)
        yield "daemon-reload", world
        if world.guard:
            yield "guard killed", world._replace(guard=False)
            yield from self.guard(world)
        elif busy:
            yield "guard comes back", world._replace(guard=True)

    def arms(self, world: World) -> Iterator[tuple[str, World]]:
        """Another operator, or the same one later. A helper may die before it has started the guard."""
        files, names, runs = world.files, {}, world.runs
        if not t.busy(files.held) or files.held.boot_id == ELSEWHERE or files.held.state == t.COMMITTING:
            files, names = named_anew(self.after(files, LOOK))
            runs = runs and names.get(runs, "X")
        if names and any(d.closed(files, line[0]) is None for line in files.lines):
            return
        for what, candidate, tries in (("switch", CANDIDATE, 2), ("restart", STABLE, 1)):
            op = "a" if names or files.held.op == "b" else "b"
            event = t.Arm(NOW, fresh(op, NOW, RUNS, HERE, candidate, tries))
            for name, disk in d.ways(files, d.step(event)):
                new = World(disk.result(), runs, world.asked, world.guard and not names)
                yield f"arm for a {what}{name}", new
                if not name and names:
                    yield f"arm for a {what}, guard started", new._replace(guard=True)

    def steps(self, files: Files) -> Moves:
        """Whatever operators and time may do to the transaction."""
        if files not in self._steps:
            found: dict[Files, str] = {}
            for name, event in events(files.held):
                for how, disk in d.ways(files, d.step(event)):
                    new = disk.result()
                    if isinstance(event, t.Confirm) and disk.txn and disk.txn.state in (t.COMMITTING, t.COMMITTED):
                        new = new._replace(passed=True)
                    found.setdefault(new, name + how)
            for name, new in _times(files):
                found.setdefault(new, name)
            found.pop(files, None)
            self._steps[files] = [(name, new) for new, name in found.items()]
        return self._steps[files]

    def starts(self, files: Files) -> Sequence[tuple[str, Files, str]]:
        """How the launcher may go through a start, and what the unit then runs."""
        if files not in self._starts:
            found: dict[tuple[Files, str], str] = {}
            for name, disk in d.ways_by_wall_clock(another_start(files), d.start):
                new = disk.result()
                # What died before it was published is become's to make good: by stable.
                release = disk.txn.candidate if disk.published == "trial" and disk.txn else new.stable
                found.setdefault((new, release), name)
            self._starts[files] = [(name, new, release) for (new, release), name in found.items()]
        return self._starts[files]

    def crashes(self, files: Files) -> Moves:
        if files not in self._crashes:
            found: dict[Files, str] = {}
            for name, disk in d.ways_by_wall_clock(files, d.crash):
                found.setdefault(disk.result(), name)
            self._crashes[files] = [(name, new) for new, name in found.items()]
        return self._crashes[files]

    def guard(self, world: World) -> Iterator[tuple[str, World]]:
        """The guard's next move, as guard.py and restore.py make it."""
        files, txn = world.files, world.files.held
        if txn is None or txn.settled:
            return
        state = _state(world)
        if txn.state in t.LIVE:
            ends = {RAN if world.runs else RUNS: {"asked": world.asked}}
            lost = watch_unit.lost(txn, state, ends)
            if lost:
                yield from self._guards("guard sees the end", world, t.Ended(NOW, txn.op, lost[0]))
            return
        if txn.restore is None:
            return
        phase, op = txn.restore.phase, txn.op
        if phase == "stop":
            untouched = bool(txn.times) and txn.trial_invocation is None and txn.start_invocation == RUNS
            ours = txn.stable_invocation == RUNS if txn.stable_invocation else untouched
            if world.runs and txn.restore.tries == 1 and ours:
                yield from self._guards("guard sees stable run", world, t.Restoring(NOW, op, "check"))
            elif world.runs:
                yield "guard stops the unit", world._replace(runs=None, asked=True)
            else:
                yield from self._guards("guard goes on to the start", world, t.Restoring(NOW, op, "start"))
            yield from self._guards("guard cannot stop it", world, t.HostAction(NOW, op, "residue", "restart the host"))
            yield from self._guards("guard cannot stop it", world, t.RestoreFailed(NOW, op, "residue", (), True))
        elif phase == "start":
            if world.runs is None or txn.stable_invocation != RUNS:
                for name, new, release in self.starts(files):
                    yield f"guard starts stable{name}", World(new, release, world.asked, world.guard)
                yield from self._guards("guard cannot start it", world, t.RestoreFailed(NOW, op, "start_failed"))
            yield from self._guards("guard goes on to the check", world, t.Restoring(NOW, op, "check"))
        elif phase == "check":
            if world.runs:
                yield from self._guards("guard sees it serve", world, t.Restored(NOW, op))
            yield from self._guards("guard sees it fail", world, t.RestoreFailed(NOW, op, "start_failed"))
        elif world.runs:
            yield "guard stops it for good", world._replace(runs=None, asked=True)
        else:
            yield from self._guards("guard gives up", world, t.GaveUp(NOW, op))

    def _guards(self, name: str, world: World, event: t.Event) -> Iterator[tuple[str, World]]:
        for how, disk in d.ways(world.files, d.step(event)):
            yield name + how, world._replace(files=disk.result())

    # What must hold.

    def broken(self, world: World) -> str | None:
        """The invariant that ``world`` breaks, or None."""
        files, txn = world.files, world.files.held
        if files not in self._checked:
            self._checked[files] = self._files_broken(files)
        if self._checked[files]:
            return self._checked[files]
        if world.runs == CANDIDATE and files.stable != CANDIDATE and not t.busy(txn):
            return "S5: a release on trial runs with nobody to take it back"
        return self.left_alone(world, True) or self.left_alone(world, False)

    def _files_broken(self, files: Files) -> str | None:
        if files.stable == CANDIDATE and not files.passed:
            return "S2: stable points at a release that was never confirmed"
        for op in {line[0] for line in files.lines}:
            if d.closed(files, op) is False:
                return "S3: one op has ends that contradict each other"
        txn = files.held
        if txn and txn.state in t.DECIDED[1:] and (txn.op, "committed") in {line[:2] for line in files.lines}:
            return "S3: what is committed is taken back"
        rested = self.after(files, LOOK)
        if rested.trial and not t.busy(rested.held):
            return "S4: a trial is named with nothing on trial, and nobody removes it"
        for files_ in (expired(files), rebooted(World(files), False).files):
            _, new, release = self.starts(files_)[0]
            if release == CANDIDATE and new.stable != CANDIDATE:
                return "S5: the launcher does not take it back by itself"
        new = self.starts(rebooted(World(files), False).files)[0][1]
        if any(d.closed(new, line[0]) is not True for line in new.lines):
            return "S3: an op was left without its end"
        return None

    def after(self, files: Files, event: t.Event) -> Files:
        """``files`` when all goes well."""
        if (files, event) not in self._after:
            self._after[files, event] = next(d.ways(files, d.step(event)))[1].result()
        return self._after[files, event]

    def left_alone(self, world: World, serves: bool) -> str | None:
        """L1: with every operator gone the host alone settles it, whether stable then ``serves`` or not.

        After a reboot that is the launcher's part. A guard that was never started comes with the next call of anybody.
        """
        asked = world, serves
        if asked not in self._settles:
            self._settles[asked] = None if self._settled(world, serves) else "L1: never settles"
        return self._settles[asked]

    def _settled(self, world: World, serves: bool) -> bool:
        world = world._replace(files=expired(world.files), guard=True)
        for _ in range(16):
            files, txn = world.files, world.files.held
            if txn is None or txn.settled:
                return True
            if txn.boot_id == ELSEWHERE:
                _, new, release = self.starts(files)[0]
                world = World(new, release, world.asked, True)
            elif txn.state in t.LIVE or txn.state == t.COMMITTING:
                world = world._replace(files=self.after(files, t.Tick(NOW, txn.op)))
            else:
                moves = self.guard(world)
                world = next((new for name, new in moves if serves or "serve" not in name), world)
        return False


def another_start(files: Files) -> Files:
    """What was the last start is an earlier one now."""
    txn = files.held
    if txn is None:
        return files
    starts = ("start_invocation", "trial_invocation", "stable_invocation")
    return files._replace(txn=d.key(replace(txn, **{name: getattr(txn, name) and RAN for name in starts})))


def rebooted(world: World, keeps_run: bool) -> World:
    """The host restarts, which empties /run (on the embedded host it does not); the unit has not started yet."""
    files = another_start(world.files)
    txn = replace(files.held, boot_id=ELSEWHERE) if keeps_run and files.held else None
    lines = tuple((op, event, ELSEWHERE, old, new) for op, event, _, old, new in files.lines)
    trial = files.trial and keeps_run
    return World(
        files._replace(txn=txn and d.key(txn), trial=trial, lines=lines, chosen=False).canonical(), None, True, False
    )


def expired(files: Files) -> Files:
    """All of the transaction's time has passed."""
    txn = files.held
    if txn is None or txn.state not in t.LIVE:
        return files
    return files._replace(txn=d.key(replace(txn, lease_until=PASSED)))


def _step_broken(old: World, name: str, new: World) -> str | None:
    before, after = old.files.held, new.files.held
    undecided = t.busy(before) and before.boot_id == HERE and before.state != t.COMMITTING
    if name.startswith("arm") and undecided and new.files.txn != old.files.txn:
        return "S1: a second transaction began while one was not settled"
    decided = after is not None and after.state in t.DECIDED and not (before and before.state in t.DECIDED)
    if decided and new.files.trial and not name.endswith((" writes", " full")):
        return "S4: a trial is named with nothing on trial"
    return None


def _state(world: World) -> UnitState:
    up = world.runs is not None
    active, sub = ("active", "running") if up else ("failed", "failed")
    return UnitState(active, sub, "signal", int(up), RUNS, 0, 0, 0)


def _times(files: Files) -> Iterator[tuple[str, Files]]:
    txn = files.held
    if txn is not None and txn.state in t.LIVE:
        yield "time passes", expired(files)


def _way(came: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    found: list[str] = []
    while (step := came[world]) is not None:
        world, name = step
        found.append(name)
    return found[::-1]
