"""What the guard works with: the unit, its journal, and the transaction that it guards."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from . import ledger, store
from .fatal import Match, Patterns
from .journal import Entry, Journal
from .paths import Install, Paths, UnitPaths
from .txn import Event, Fatal, HostAction, Txn, TxnError, from_json, to_json
from .unit import Systemctl

_BALLAST = 1 << 16


def remembered(paths: UnitPaths) -> Txn | None:
    """The transaction on this host; where it cannot be read, as a guard before this one kept it."""
    try:
        return ledger.load(paths)
    except TxnError:
        kept = store.read_json(paths.guard_copy)
        if kept is None:
            raise
        return from_json(kept)


class Hand:
    """One guard's hold on one transaction. ``last`` is the transaction as this guard last knew it."""

    def __init__(self, install: Install, unit: str, txn: Txn) -> None:
        self.install = install
        self.paths = Paths(install.root).unit(unit)
        self.unit = unit
        self.op = txn.op
        self.last = txn
        self._kept: Txn | None = None
        self.systemctl = Systemctl(install)
        self.patterns = Patterns(txn.fatal_patterns)
        self.journal = Journal(install, unit, txn.journal_cursor)
        self._ballast = f"{self.paths.run}/ballast"
        with suppress(OSError, store.DiskFull):
            store.atomic_write(self._ballast, b"\0" * _BALLAST, 0o600)

    def load(self) -> Txn | None:
        """The transaction now; None when another one has taken its place. Raises TxnError when it is damaged."""
        txn = ledger.load(self.paths)
        if txn is None:
            raise TxnError(f"{self.paths.txn} is gone")
        if txn.op != self.op:
            return None
        self._keep(txn)
        return txn

    def _keep(self, txn: Txn) -> None:
        """Remember ``txn``, on disk too: a guard that is killed knows what it guarded even if txn.json is damaged."""
        self.last = txn
        if self._kept is None or replace(txn, lease_until=0.0) != replace(self._kept, lease_until=0.0):
            self._kept = txn
            with suppress(OSError, store.DiskFull):
                store.write_json(self.paths.guard_copy, to_json(txn))

    def apply(self, make: Callable[[float], Event]) -> Txn:
        """Step. On a full disk the guard's own ballast is given up for the space that deciding needs."""
        try:
            applied = ledger.apply(self.paths, make)
        except store.DiskFull:
            store.remove(self._ballast)
            applied = ledger.apply(self.paths, make)
        if applied.txn is not None:
            self._keep(applied.txn)
        return self.last

    def rescue(self, make: Callable[[float], Event]) -> Txn:
        """Step from what this guard remembers, for txn.json is damaged or gone."""
        self.last = ledger.rescue(self.paths, self.last, make).txn or self.last
        return self.last

    def lines(self, limit_s: float) -> list[tuple[Entry, Match]]:
        """The lines that decide something, of those that arrive within ``limit_s``."""
        found = ((entry, self.patterns.match(entry)) for entry in self.journal.wait(limit_s))
        return [(entry, match) for entry, match in found if match]

    def decide(self, match: Match) -> None:
        """Step by what a line of the journal says."""
        op, cause, action, evidence = self.op, match.cause, match.action, (match.evidence,)
        if action:
            self.apply(lambda at: HostAction(at, op, cause, action, evidence))
        else:
            self.apply(lambda at: Fatal(at, op, cause, evidence))

    def close(self, done: bool) -> None:
        """Let go; ``done`` when no guard of this transaction is to follow."""
        self.journal.close()
        for path in (self._ballast, self.paths.guard_copy) if done else ():
            with suppress(OSError):
                store.remove(path)
