"""A unit, its journal and its engine in this process, under the real programs in a private root."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ddtune.onhost import choose, clock, ended, ledger, releases
from ddtune.onhost import txn as t
from ddtune.onhost.guard import Guard
from ddtune.onhost.hand import Hand
from ddtune.onhost.journal import Entry
from ddtune.onhost.paths import Install, Paths, UnitPaths
from ddtune.onhost.unit import UnitState

UNIT = "engine.service"
PATTERNS = ({"cause": "illegal_memory_access", "regex": "illegal memory access"},)


class FakeJournal:
    """Lines that a test puts in, given out once."""

    def __init__(self) -> None:
        self.queue: deque[Entry] = deque()

    def wait(self, limit_s: float) -> list[Entry]:
        if not self.queue:
            time.sleep(min(limit_s, 0.01))
            return []
        found = list(self.queue)
        self.queue.clear()
        return found

    def close(self) -> None:
        pass


class FakeUnit:
    """systemd and one service. ``stubborn`` is the strongest signal that it does not end on."""

    def __init__(self, paths: UnitPaths) -> None:
        self.paths = paths
        self.calls: list[str] = []
        self.serial = 0
        self.active, self.sub, self.n_restarts = "inactive", "dead", 0
        self.runs: str | None = None
        self.stubborn: str | None = None
        self.dies: Callable[[str], bool] = lambda which: False

    @property
    def invocation(self) -> str:
        return f"inv{self.serial}"

    def state(self, unit: str) -> UnitState:
        pid = os.getpid() if self.runs else 0
        return UnitState(self.active, self.sub, "success", pid, self.invocation, self.n_restarts, 0, 0)

    def job(self, unit: str) -> str:
        return ""

    def start(self, unit: str) -> None:
        self.calls.append("start")
        self.serial += 1
        which = choose.choose(self.paths, self.invocation)
        self.active, self.sub, self.runs = "active", "running", which
        if self.dies(which):
            self.crash()

    def stop(self, unit: str, limit_s: float = 600) -> None:
        self.calls.append("stop")
        if self.stubborn is None:
            self._down("inactive", asked=True)

    def kill(self, unit: str, signal: str = "KILL") -> None:
        self.calls.append("kill")
        if self.stubborn != "KILL":
            self._down("inactive", asked=True)

    def reset_failed(self, unit: str) -> None:
        self.calls.append("reset-failed")

    def run(self, *arguments: str, **_: Any) -> str:
        self.calls.append(" ".join(arguments))
        return ""

    def crash(self) -> None:
        """The main process is gone and systemd does not start it again."""
        self._down("failed", asked=False)

    def _down(self, active: str, asked: bool) -> None:
        if self.runs is None:
            return
        record = {"asked": asked, "result": "signal", "code": "killed", "status": "KILL", "boottime": clock.boottime()}
        ended.remember(self.paths, self.invocation, record)
        self.active, self.sub, self.runs = active, "dead", None


class Bench:
    """One adopted unit that runs stable, and the guard of a transaction on it."""

    def __init__(self, root: Path) -> None:
        self.install = Install(root=str(root), journalctl="/bin/false", systemctl="/bin/false")
        self.paths = Paths(str(root)).unit(UNIT)
        os.makedirs(self.paths.releases)
        self.paths.ensure_run()
        self.stable = self.put("stable")
        self.candidate = self.put("candidate")
        releases.set_stable(self.paths, self.stable)
        self.unit = FakeUnit(self.paths)
        self.journal = FakeJournal()
        self.unit.start(UNIT)
        self.unit.calls.clear()

    def put(self, name: str) -> str:
        release = {"argv": ["/bin/echo", name], "env_set": {}, "env_unset": [], "cwd": "/", "schema": 1}
        return releases.put(self.paths, release, {"profile": name})

    def apply(self, make: Callable[[float], t.Event]) -> t.Txn:
        txn = ledger.apply(self.paths, make).txn
        assert txn is not None
        return txn

    def arm(self, **changes: Any) -> None:
        def make(at: float) -> t.Event:
            fields: dict[str, Any] = {
                "op": "op", "kind": "switch", "unit": UNIT, "owner": {"who": "ada"}, "boot_id": clock.boot_id(),
                "armed_at": at, "wall_at": clock.wall(), "candidate": self.candidate, "stable": self.stable,
                "candidate_profile": "candidate", "stable_profile": "stable", "lease_s": 60.0, "lease_until": at + 60,
                "confirm_deadline": at + 100, "start_invocation": self.unit.invocation, "fatal_patterns": PATTERNS,
                "stop_grace_s": 0.05, "stop_timeout_s": 0.1, "restore_s": 2.0,
            }  # fmt: skip
            return t.Arm(at, t.Txn(**{**fields, **changes}))

        self.apply(make)

    def trial(self, **changes: Any) -> None:
        """Armed, swapped, and started as the trial."""
        self.arm(**changes)
        self.apply(lambda at: t.Swap(at, "op"))
        self.unit.stop(UNIT)
        self.unit.start(UNIT)
        assert self.unit.runs == "trial"
        self.unit.calls.clear()

    def hand(self) -> Hand:
        txn = ledger.load(self.paths)
        assert txn is not None
        return self.hand_on(txn)

    def hand_on(self, txn: t.Txn) -> Hand:
        hand = Hand(self.install, UNIT, txn)
        hand.systemctl = self.unit  # type: ignore[assignment]
        hand.journal = self.journal  # type: ignore[assignment]
        return hand

    def guard(self) -> t.Txn:
        """Runs the guard to its end."""
        Guard(self.hand()).run()
        txn = ledger.load(self.paths)
        assert txn is not None
        return txn

    def line(self, text: str, source: str = "unit", invocation: str | None = None, pid: int | None = None) -> None:
        """Puts a line into the journal; of the current start unless said otherwise."""
        start = (invocation or self.unit.invocation) if source == "unit" else None
        self.journal.queue.append(Entry(clock.wall(), source, text, None, start, pid))

    def ends(self) -> list[str]:
        return [line["event"] for line in releases.history(self.paths) if line["event"] in releases.ENDS]
