"""``guard UNIT OP``: watches a transaction from arming to its end, and is the only one who rolls back.

It runs as a transient service that systemd restarts however it dies, so each step looks at what lies on the host and
goes on from there.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

from . import alive, canary_mark, clock, envelope_entry, residue, restore, store, traffic, watch_unit
from .hand import Hand, remembered
from .paths import Install, Paths, load_install
from .txn import COMMITTING, LIVE, TRYING, Ended, Fail, Tick, Txn, TxnError, expired
from .unit import Systemctl, SystemctlError, guard_unit

SLICE_S = 0.2
UNIT_S = 1.0
LATE_LINES_S = 0.4
LIFT_TRIES = 10


def main(args: list[str]) -> int:
    """Guard until nothing is left to do. A second guard of the same unit leaves at once."""
    install = load_install()
    unit, op = args
    paths = Paths(install.root).unit(unit)
    if alive.claim(paths, op) is None:
        print(f"ddtune: {unit} has a guard already", file=sys.stderr)
        return 0
    txn = remembered(paths)
    if txn is not None and txn.op == op:
        hand, done = Hand(install, unit, txn), False
        try:
            Guard(hand).run()
            done = True
        finally:
            hand.close(done)
    leave(install, op)
    return 0


def leave(install: Install, op: str) -> None:
    """End by our own word: systemd starts this service again after any other end."""
    with suppress(SystemctlError):
        Systemctl(install).run("stop", "--no-block", f"{guard_unit(op)}.service")


class Guard:
    """Watches while nothing is decided; then brings stable back."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.looked_at = float("-inf")

    def run(self) -> None:
        """Until the transaction is settled, or another has taken its place."""
        while True:
            try:
                txn = self.hand.load()
            except TxnError as error:
                txn = self.rescue(str(error))
            if txn is None or txn.settled:
                break
            self.step(txn)
        if txn is not None:
            self.close(txn)
            self.open_up(txn)
        if txn is not None and clock.boottime() >= txn.lease_until:
            envelope_entry.record(self.hand.paths, txn)

    def close(self, txn: Txn) -> None:
        """A guard before this one may have died between the decision and the line of history that tells it."""
        with suppress(TxnError, store.LockTimeoutError, store.DiskFull, OSError):
            self.hand.apply(lambda at: Tick(at, txn.op))

    def open_up(self, txn: Txn) -> None:
        """Nothing stays held behind the end of a transaction; where nft fails, its own time limit is left."""
        for _ in range(LIFT_TRIES):
            traffic.match(self.hand.install, txn)
            if not os.path.lexists(self.hand.paths.held):
                return
            time.sleep(SLICE_S)

    def rescue(self, problem: str) -> Txn:
        """Nobody can confirm what cannot be read, so it ends."""
        print(f"ddtune: {problem}", file=sys.stderr)
        evidence = (watch_unit.said(problem, "guard"),)
        return self.hand.rescue(lambda at: Fail(at, self.hand.op, "unknown", evidence))

    def step(self, txn: Txn) -> None:
        """One slice of watching, or one phase of a rollback."""
        try:
            if txn.state in LIVE:
                self.watch(txn)
            elif txn.state == COMMITTING:
                self.hand.apply(lambda at: Tick(at, txn.op))
            else:
                traffic.match(self.hand.install, txn)
                restore.go_on(self.hand, txn)
        except TxnError:
            # Met with a rescue at the next look.
            return
        except (SystemctlError, store.LockTimeoutError, store.DiskFull) as error:
            print(f"ddtune: {error}", file=sys.stderr)
            time.sleep(SLICE_S)
        except OSError as error:
            print(f"ddtune: {error}", file=sys.stderr)
            self.go_back_unrecorded(txn)
            time.sleep(SLICE_S)

    def go_back_unrecorded(self, txn: Txn) -> None:
        """Nothing can be written, so no decision can be kept; but a start that finds the time run out runs stable."""
        if txn.state not in LIVE or not expired(txn, clock.boottime()):
            return
        state = self.hand.systemctl.state(self.hand.unit)
        if not txn.trial_invocation or state.invocation != txn.trial_invocation:
            return
        with suppress(SystemctlError):
            restore.stop_unit(self.hand, txn, polite=True)
            self.hand.systemctl.reset_failed(self.hand.unit)
            self.hand.systemctl.start(self.hand.unit)

    def watch(self, txn: Txn) -> None:
        if expired(txn, clock.boottime()):
            self.hand.apply(lambda at: Tick(at, txn.op))
            return
        if txn.state in TRYING and txn.forgiven and not txn.trial_invocation:
            self.try_again(txn)
        if self.read_lines(SLICE_S):
            return
        if time.monotonic() - self.looked_at >= UNIT_S:
            self.looked_at = time.monotonic()
            self.look()

    def try_again(self, txn: Txn) -> None:
        """Make a start that a passing fault ended once more, as a new one and not as systemd's own restart."""
        if self.hand.systemctl.state(self.hand.unit).invocation != txn.forgiven:
            return
        if self.hand.systemctl.job(self.hand.unit):
            return
        restore.stop_unit(self.hand, txn, polite=False)
        self.hand.systemctl.reset_failed(self.hand.unit)
        self.hand.systemctl.start(self.hand.unit)

    def read_lines(self, limit_s: float) -> bool:
        """Wait for lines of the journal; True when one of them decided. A later one may explain it better."""
        decided = False
        for entry, match in self.hand.lines(limit_s):
            # Read again: a start may have been chosen since.
            txn = self.hand.load()
            mark = canary_mark.read(self.hand.paths) if entry.source == "kernel" else None
            if txn is None or txn.settled or not watch_unit.concerns(txn, entry, match, mark):
                continue
            self.hand.decide(match)
            decided = True
        return decided

    def look(self) -> None:
        """Is the start that is on trial still running?"""
        state = self.hand.systemctl.state(self.hand.unit)
        residue.remember(self.hand.paths, state.main_pid)
        txn = self.hand.load()
        if txn is None or txn.state not in LIVE:
            return
        traffic.match(self.hand.install, txn)
        found = watch_unit.lost(txn, state, store.read_json(self.hand.paths.ended) or {})
        if found is None:
            return
        cause, text = found
        until = time.monotonic() + LATE_LINES_S
        while cause != "drift" and time.monotonic() < until:
            # The line that says why may be a moment behind the end itself.
            if self.read_lines(until - time.monotonic()):
                return
        self.hand.apply(lambda at: Ended(at, txn.op, cause, (watch_unit.said(text),)))
