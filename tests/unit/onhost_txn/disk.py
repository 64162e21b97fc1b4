"""The real ledger, launcher and late-crash code over a host's files in memory, each write of which may be the last."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ddtune.onhost import choose, choose_trial, clock, late, ledger, releases, store
from ddtune.onhost import txn as t
from ddtune.onhost.paths import UnitPaths
from ddtune.onhost.txn_back import WEAK

PATHS = UnitPaths("", "u")
NOW, PASSED, AHEAD = 0.5, 0.0, 1.0
HERE, ELSEWHERE = "this boot", "another boot"
RUNS, RAN = "the last start", "an earlier start"

Key = tuple[Any, ...]
_TXNS: dict[Key, t.Txn] = {}


class Files(NamedTuple):
    """What lies on the host. ``txn`` is the key of a transaction, ``lines`` are ``(op, event, boot, from, to)``.

    ``probation`` is ``(release, previous, marked as ended)``; ``chosen`` tells of a start on this boot; ``passed`` that
    the candidate was confirmed.
    """

    txn: Key | None = None
    trial: bool = False
    stable: str = "S"
    probation: tuple[str, str, bool] | None = None
    lines: tuple[tuple[str, str, str, str, str], ...] = ()
    chosen: bool = True
    passed: bool = False

    @property
    def held(self) -> t.Txn | None:
        return None if self.txn is None else _TXNS[self.txn]

    def canonical(self) -> Files:
        """The same host without what cannot matter any more."""
        op = self.held.op if self.held else None
        ended = {line[0] for line in self.lines if line[1] in releases.ENDS}
        lines = tuple(
            (
                name,
                event,
                HERE if name in ended else boot,
                *((old, new) if name == "a" and name not in ended else ("", "")),
            )
            for name, event, boot, old, new in sorted(self.lines, key=lambda line: line[0])
            if name not in ended or (name == op and event != "armed") or not closed(self, name)
        )
        probation = self.probation
        if probation and probation[0] != self.stable:
            # Nothing comes of it any more; the next start removes it.
            probation = None
        return self._replace(
            lines=lines,
            probation=probation,
            chosen=self.chosen or not any(line[2] == ELSEWHERE for line in lines),
            passed=self.passed and (self.stable == "C" or (self.held is not None and self.held.state == t.COMMITTING)),
        )


def closed(files: Files, op: str) -> bool | None:
    """Whether ``op`` has the one end that it must have; None while it has none, False when ends contradict."""
    ends = [event for name, event, *_ in files.lines if name == op and event in releases.ENDS]
    if not ends:
        return None
    # A rollback that was counted as done may be found to have failed.
    return len(ends) == 1 or (ends[1:] == ["rollback_failed"] and ends[0] in ("rolled_back", "aborted"))


def key(txn: t.Txn) -> Key:
    """What of ``txn`` can still matter; the transaction that stands for it is kept for :attr:`Files.held`."""
    live, open_ = txn.state in t.LIVE, not txn.settled
    trial, cause = txn.trial_invocation if open_ else None, txn.cause
    if cause is not None:
        cause = "aborted" if cause == "aborted" else "engine_dead" if cause in WEAK else "garbage_output"
    # Whichever limit has passed, it is the end.
    passed = t.expired(txn, NOW) is not None
    begun = txn.start_invocation if open_ and trial is None else None
    trial = trial if live else trial and RAN
    ours = txn.stable_invocation if open_ and not live else None
    ready, tries = txn.ready and live, txn.tries_left if live else 0
    swapped = "swapped" in txn.times and open_ and not live
    restore = (txn.restore.phase, txn.restore.tries) if txn.restore and open_ else None
    found: Key = (
        txn.op, txn.candidate, txn.stable, txn.state, txn.settled, txn.boot_id, cause, passed, begun, trial, ours,
        ready, tries, swapped, restore,
    )  # fmt: skip
    if found not in _TXNS:
        _TXNS[found] = replace(
            txn,
            lease_until=PASSED if passed else AHEAD,
            confirm_deadline=AHEAD,
            start_deadline=None,
            start_invocation=begun,
            trial_invocation=trial,
            stable_invocation=ours,
            ready=ready,
            tries_left=tries,
            cause=cause,
            blamed=False,
            action=None,
            evidence=(),
            armed_at=PASSED,
            times={"swapped": PASSED} if swapped else {},
            restore=t.Restore(*restore, PASSED) if restore else None,
        )
    return found


class KilledError(BaseException):
    """The program dies here."""


class Disk:
    """The files under one program. ``cut`` is how many writes it lives for, ``full`` where no write succeeds."""

    def __init__(self, files: Files, cut: int | None = None, full: str | None = None) -> None:
        self.txn, self.files = files.held, files
        self.lines = list(files.lines)
        self.values = {name: getattr(files, name) for name in ("trial", "stable", "probation", "chosen")}
        self.cut, self.full, self.writes = cut, full, 0
        self.published: str | None = None

    def touch(self, where: str) -> None:
        if self.full == where:
            raise store.DiskFull(where)
        if self.writes == self.cut:
            raise KilledError
        self.writes += 1

    def result(self) -> Files:
        passed = self.files.passed
        return Files(self.txn and key(self.txn), lines=tuple(self.lines), passed=passed, **self.values).canonical()

    def swap_link(self, path: str, target: str) -> None:
        name = path.rpartition("/")[2]
        self.touch("run" if name == "trial" else "var")
        if name != "previous":
            self.values[name] = True if name == "trial" else target.rpartition("/")[2]

    def remove(self, path: str) -> None:
        name = path.rpartition("/")[2].partition(".")[0]
        if self.values.get(name):
            # Removing needs no room.
            full, self.full = self.full, None
            self.touch("run")
            self.full = full
            self.values[name] = False if name == "trial" else None

    def write_json(self, path: str, value: Mapping[str, Any], *_: object) -> None:
        assert path == PATHS.probation, path
        self.touch("var")
        self.values["probation"] = (value["release"], value["previous"], bool(value["ended"]))

    def read_json(self, path: str) -> dict[str, Any] | None:
        if path == PATHS.txn:
            return {"settled": self.txn.settled} if self.txn else None
        if path == PATHS.chosen:
            return {"boot_id": HERE if self.values["chosen"] else ELSEWHERE}
        assert path == PATHS.probation, path
        found = self.values["probation"]
        if found is None:
            return None
        release, previous, ended = found
        return {"release": release, "previous": previous, "ended": {"at": 0} if ended else None, "until": AHEAD}

    def append_line(self, path: str, line: Mapping[str, Any]) -> None:
        self.touch("var")
        if line["event"] == "armed" or line["event"] in releases.ENDS:
            ends = (line["from"]["release"], line["to"]["release"])
            self.lines.append((line["op"], line["event"], line["boot_id"], *ends))

    def read_lines(self, _: str) -> list[dict[str, Any]]:
        return [
            {"op": op, "event": event, "boot_id": boot, "from": {"release": old}, "to": {"release": new}}
            for op, event, boot, old, new in self.lines
        ]

    def write(self, _: UnitPaths, txn: t.Txn) -> None:
        self.touch("run")
        self.txn = txn

    def target(self, link: str) -> str | None:
        found: str | None = self.values[link.rpartition("/")[2]]
        return found

    def stage(self, _paths: UnitPaths, _invocation: str, _sha: str, _release: object, which: str, _op: object) -> str:
        self.touch("run")
        return which

    def stage_trial(self, paths: UnitPaths, txn: t.Txn, invocation: str) -> str | None:
        if self.values["trial"] and self.full != "run":
            return self.stage(paths, invocation, "", {}, "trial", None)
        with contextlib.suppress(store.DiskFull):
            ledger.apply(paths, lambda at: t.Fail(at, txn.op, "unknown"))
        return None

    def publish(self, staged: str, _: str) -> None:
        self.touch("run")
        self.published = staged
        self.values["chosen"] = True


_disk = Disk(Files())
_wall = NOW


@contextlib.contextmanager
def mounted() -> Iterator[None]:
    """The programs see :data:`_disk` in the place of their files and clocks."""

    def through(name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: getattr(_disk, name)(*args, **kwargs)

    def nothing(*_: object, **__: object) -> None:
        return None

    fakes: list[tuple[Any, str, Any]] = [
        *((store, name, through(name)) for name in ("swap_link", "remove", "write_json", "read_json", "append_line")),
        (store, "read_lines", through("read_lines")),
        (store, "publish", through("publish")),
        (store, "discard", nothing),
        (store, "locked", lambda *_: contextlib.nullcontext()),
        (releases, "_target", through("target")),
        (releases, "read", lambda *_: {}),
        (releases, "profile", nothing),
        (releases, "quarantine", lambda *_: _disk.touch("var")),
        (ledger, "load", lambda _: _disk.txn),
        (ledger, "write", through("write")),
        (ledger, "shout", nothing),
        (choose, "shout", nothing),
        (choose, "stage", through("stage")),
        (choose, "stable_release", lambda paths: (releases.stable(paths), {})),
        (choose_trial, "shout", nothing),
        (choose_trial, "_stage", through("stage_trial")),
        (choose_trial, "_record", lambda *_: {}),
        (clock, "boottime", lambda: NOW),
        (clock, "wall", lambda: _wall),
        (clock, "boot_id", lambda: HERE),
    ]
    kept = [(module, name, getattr(module, name)) for module, name, _ in fakes]
    for module, name, fake in fakes:
        setattr(module, name, fake)
    try:
        yield
    finally:
        for module, name, real in kept:
            setattr(module, name, real)


def ways_by_wall_clock(files: Files, act: Callable[[], object]) -> Iterator[tuple[str, Disk]]:
    """:func:`ways`, and how ``act`` goes when the wall clock says that a probation is over."""
    global _wall
    yield from ways(files, act)
    if files.probation:
        _wall = AHEAD + 1
        try:
            yield from ((f"{name}, by the wall clock after any probation", disk) for name, disk in ways(files, act))
        finally:
            _wall = NOW


def ways(files: Files, act: Callable[[], object]) -> Iterator[tuple[str, Disk]]:
    """``act`` on ``files``: as it should go, killed after each of its writes, and with /var or /run full."""
    global _disk
    done = _disk = Disk(files)
    act()
    yield "", done
    for cut in range(1, done.writes):
        _disk = Disk(files, cut=cut)
        with contextlib.suppress(KilledError):
            act()
        yield f", killed after {cut} writes", _disk
    for full in ("var", "run") if done.writes else ():
        _disk = Disk(files, full=full)
        with contextlib.suppress(store.DiskFull):
            act()
        yield f", /{full} full", _disk


def step(event: t.Event) -> Callable[[], object]:
    """``event`` taken through the ledger."""
    return lambda: ledger.apply(PATHS, lambda _: event)


def start() -> object:
    """The launcher on a new start."""
    choose._catch_up(PATHS)
    return choose.choose(PATHS, RUNS)


def crash() -> object:
    """What ``ended`` writes for an end that nobody asked for."""
    return late.mark_ended(PATHS, {"at": 0})
