"""``ddtune-rollback``: every adopted service back to stable, by hand, with neither ddtune's client nor a network."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from . import ledger, releases, store, traffic
from .alive import guard_alive
from .context import Host
from .paths import UnitPaths, load_install
from .txn_events import Abort
from .txn_model import ROLLED_BACK, Txn, TxnError, busy
from .unit import SystemctlError
from .verbs_read import matching

_POLL_S = 1.0


def main() -> int:
    """Goes back on all units and says what it did; 1 when one of them needs more than this program can do."""
    host = Host.of(load_install())
    if os.geteuid() != 0 and not host.install.root:
        print("ddtune-rollback needs root: run it with sudo.")
        return 1
    units = host.adopted_units()
    if not units:
        print("No service on this host is under ddtune; nothing was done.")
    return max([_back(host, unit) for unit in units], default=0)


def _back(host: Host, unit: str) -> int:
    paths = host.paths.unit(unit)
    try:
        txn = _decide(paths)
        if txn is not None and busy(txn):
            return _follow(host, paths, txn)
        traffic.lift(host.install, paths)
        return _start_stable(host, paths)
    except (SystemctlError, store.LockTimeoutError, store.DiskFull, OSError) as error:
        # Without the link no start is a trial, whatever else could not be written.
        with suppress(OSError):
            os.unlink(paths.trial)
        print(f"{unit}: {error}")
        print(f"{unit}: by hand: systemctl reset-failed {unit}; systemctl restart {unit}")
        return 1


def _decide(paths: UnitPaths) -> Txn | None:
    """The transaction after the decision to go back; None when there is none that can be read."""
    try:
        return ledger.apply(paths, lambda at: Abort(at, None, "operator_request")).txn
    except TxnError as error:
        print(f"{paths.unit}: {error}; without it the next start is stable")
        store.remove(paths.txn)
        store.remove(paths.trial)
        return None


def _follow(host: Host, paths: UnitPaths, txn: Txn) -> int:
    """Waits while the guard brings stable back, and starts a guard where none lives."""
    print(
        f"{paths.unit}: {txn.op} goes back to {_name(paths, txn.stable)}; this may take as long as a start of the model"
    )
    if not guard_alive(paths, txn.op):
        try:
            host.systemctl.run_guard(paths.unit, txn.op)
        except SystemctlError as error:
            print(f"{paths.unit}: its guard cannot be started ({error})")
            return _start_stable(host, paths)
    end = time.monotonic() + txn.restore_s + txn.stop_timeout_s
    while busy(txn) and time.monotonic() < end:
        time.sleep(_POLL_S)
        txn = ledger.load(paths) or txn
    if txn.state == ROLLED_BACK and txn.settled:
        print(f"{paths.unit}: runs {_name(paths, txn.stable)} again")
        return 0
    print(f"{paths.unit}: {txn.state} ({txn.cause}): see journalctl -u {paths.unit}")
    return 1


def _start_stable(host: Host, paths: UnitPaths) -> int:
    stable = releases.stable(paths)
    process = host.running(paths.unit)
    if process is not None and matching(paths, process) == (stable, True):
        print(f"{paths.unit}: already runs {_name(paths, stable)}; nothing was done")
        return 0
    host.systemctl.reset_failed(paths.unit)
    host.systemctl.restart(paths.unit)
    print(f"{paths.unit}: starts {_name(paths, stable)}: follow it with journalctl -fu {paths.unit}")
    return 0


def _name(paths: UnitPaths, sha: str | None) -> str:
    return f"{releases.profile(paths, sha) or 'a release'} ({(sha or 'unknown')[:12]})"
