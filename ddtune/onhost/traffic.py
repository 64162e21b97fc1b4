"""Held traffic: from a trial's stop until its quick gate has passed, nothing but loopback reaches the API port.

One nftables table for each unit, gone when nothing is held. A file on /run says that there is one, so that whoever
comes by (guard, launcher, helper) sees what a program that was killed left. The rule's port is in a set whose entry
times out: with every program of ddtune dead, the kernel lifts it. A reboot does as well.
"""

from __future__ import annotations

import hashlib
import os
import subprocess

from . import clock, store, tools
from .paths import Install, Paths, UnitPaths
from .shout import shout
from .txn_model import LIFTED, TRIAL, Txn

_LIMIT_S = 10.0
_AFTER_S = 120
"""Seconds past a transaction's last deadline that its rollback's stop may take."""


class CannotHoldError(Exception):
    """This host cannot hold traffic; the text says why."""


def table(unit: str) -> str:
    """The name of ``unit``'s table in the family inet."""
    return f"ddtune_{hashlib.sha256(unit.encode()).hexdigest()[:16]}"


def by_hand(unit: str) -> str:
    """The command of root's that lifts what is held."""
    return f"nft delete table inet {table(unit)}"


def held(txn: Txn) -> bool:
    """Whether ``txn`` holds traffic now: the candidate runs, or may run, and nobody has judged it yet."""
    if txn.traffic != "held" or txn.settled or LIFTED in txn.times or "swapped" not in txn.times:
        return False
    if txn.state == TRIAL:
        return True
    # Until it has stopped, what runs may still be the candidate.
    return txn.restore is not None and txn.restore.phase == "stop" and txn.restore.tries == 1


def check(install: Install, unit: str, port: int) -> None:
    """Raises CannotHoldError unless this host's nftables would take the rules; changes nothing."""
    _nft(install, "--check", "-f", "-", given=_rules(unit, port, 60))


def put(install: Install, txn: Txn) -> None:
    """Hold; holding what is held starts its time anew. Raises CannotHoldError."""
    paths = Paths(install.root).unit(txn.unit)
    left_s = txn.confirm_deadline - clock.boottime() + txn.stop_timeout_s + txn.stop_grace_s + _AFTER_S
    store.write_json(paths.held, {"op": txn.op, "port": txn.api_port, "lift": by_hand(txn.unit)})
    _nft(install, "-f", "-", given=_rules(txn.unit, txn.api_port, max(1, int(left_s))))


def lift(install: Install, paths: UnitPaths) -> bool:
    """Let everybody through again; False, and said aloud, when nftables would not."""
    if not os.path.lexists(paths.held):
        return True
    try:
        if _is_held(install, paths.unit):
            _nft(install, "delete", "table", "inet", table(paths.unit))
    except CannotHoldError as error:
        shout(f"{paths.unit}: its API port is still closed to other machines ({error}); as root: {by_hand(paths.unit)}")
        return False
    store.remove(paths.held)
    return True


def match(install: Install, txn: Txn) -> None:
    """Make what is held what ``txn`` wants: after a kill at any point, and after somebody flushed the rules."""
    paths = Paths(install.root).unit(txn.unit)
    if not held(txn):
        lift(install, paths)
        return
    try:
        if not os.path.lexists(paths.held) or not _is_held(install, txn.unit):
            put(install, txn)
    except (CannotHoldError, OSError, store.DiskFull) as error:
        shout(f"{txn.unit}: other machines may reach the trial ({error})")


def _is_held(install: Install, unit: str) -> bool:
    return f"table inet {table(unit)}\n" in _nft(install, "list", "tables") + "\n"


def _rules(unit: str, port: int, seconds: int) -> str:
    """The table, made anew by one transaction of the kernel's."""
    name = table(unit)
    return f"""\
add table inet {name}
delete table inet {name}
add table inet {name}
add set inet {name} ports {{ type inet_service; flags timeout; }}
add chain inet {name} trial {{ type filter hook input priority -10; policy accept; }}
add rule inet {name} trial iifname != "lo" tcp dport @ports reject with tcp reset comment "ddtune: a trial is judged"
add element inet {name} ports {{ {port} timeout {seconds}s }}
"""


def _nft(install: Install, *arguments: str, given: str = "") -> str:
    program = tools.nft(install.root)
    if program is None:
        raise CannotHoldError('this host has no nft: install nftables, or set traffic = "open"')
    try:
        done = subprocess.run(
            [program, *arguments],
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotHoldError(f"nft cannot be run: {error}") from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[0]
        raise CannotHoldError(f"nft said: {said}")
    return done.stdout
