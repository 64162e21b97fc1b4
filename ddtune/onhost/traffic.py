"""Held traffic: from a trial's stop until its quick gate has passed, nothing but loopback reaches what it listens on.

Loopback is 127.0.0.0/8 and ::1: a connection of this host's to an address of its own that others know it by is
refused as well, since a proxy of users' may be what makes it.

One nftables table for each unit, gone when nothing is held. A file on /run says that there is one, so that whoever
comes by (guard, launcher, helper) sees what a program that was killed left. The rule's ports are in a set whose entries
time out: with every program of ddtune dead, the kernel lifts them. A reboot does as well.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from . import clock, releases, store, tools
from .api import flag_value
from .paths import Install, Paths, UnitPaths
from .shout import shout
from .txn_model import LIFTED, TRIAL, Txn

_LIMIT_S = 10.0
# The further doors of an engine: gRPC serves generations, the others serve engines and monitors on other machines.
_DOORS = (
    *("--grpc-port", "--smg-http-sidecar-port", "--grpc-http-sidecar-port", "--disaggregation-bootstrap-port"),
    *("--encoder-bootstrap-port", "--engine-info-bootstrap-port"),
)
_DOOR_VARIABLES = ("SGLANG_GRPC_PORT",)
# With one of these the API's port speaks gRPC, and what is left of HTTP has the next one.
_GRPC_MODES = ("--grpc-mode", "--smg-grpc-mode")
_GRPC_BEYOND, _SIDECAR_BEYOND = 10000, 1
_SHORTEST = len("--grpc-")
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
    _nft(install, "--check", "-f", "-", given=_rules(unit, [port], 60))


def put(install: Install, txn: Txn, env: Mapping[str, str] | None = None) -> None:
    """Hold; holding what is held starts its time anew. Raises CannotHoldError.

    ``env`` is the environment that the unit gives its engine, where that is known. A port that was held stays so.
    """
    paths = Paths(install.root).unit(txn.unit)
    left_s = txn.confirm_deadline - clock.boottime() + txn.stop_timeout_s + txn.stop_grace_s + _AFTER_S
    wanted = {txn.api_port, *_of_candidate(paths, txn, env or {})}
    before = store.read_json(paths.held) or {}
    if before.get("op") == txn.op and isinstance(before.get("ports"), list):
        wanted.update(port for port in before["ports"] if isinstance(port, int))
    ports = sorted(wanted)
    store.write_json(paths.held, {"op": txn.op, "ports": ports, "lift": by_hand(txn.unit)})
    _nft(install, "-f", "-", given=_rules(txn.unit, ports, max(1, int(left_s))))


def _of_candidate(paths: UnitPaths, txn: Txn, env: Mapping[str, str]) -> list[int]:
    with suppress(releases.ReleaseError):
        release = releases.read(paths, txn.candidate)
        given = {name: value for name, value in env.items() if name not in release["env_unset"]}
        return doors(txn.api_port, release["argv"], {**given, **release["env_set"]})
    return []


def doors(api_port: int, argv: Sequence[str], env: Mapping[str, str]) -> list[int]:
    """The ports beside ``api_port`` on which an engine of this command line and environment lets others in, sorted.

    Its parser takes the beginning of a flag for the flag.
    """
    flags = {word.partition("=")[0] for word in argv}
    asked = {flag for flag in flags for door in _DOORS if len(flag) > _SHORTEST and door.startswith(flag)}
    named = {flag_value(argv, flag) for flag in asked} | {env.get(name) for name in _DOOR_VARIABLES}
    found = {int(value) for value in named if value and value.isdecimal() and len(value) < 6}
    if any(len(flag) > _SHORTEST and mode.startswith(flag) for flag in flags for mode in _GRPC_MODES):
        found |= {api_port + _GRPC_BEYOND, api_port + _SIDECAR_BEYOND}
    return sorted(port for port in found if 0 < port < 65536 and port != api_port)


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


def _rules(unit: str, ports: Iterable[int], seconds: int) -> str:
    """The table, made anew by one transaction of the kernel's."""
    name = table(unit)
    elements = ", ".join(f"{port} timeout {seconds}s" for port in ports)
    return f"""\
add table inet {name}
delete table inet {name}
add table inet {name}
add set inet {name} ports {{ type inet_service; flags timeout; }}
add chain inet {name} trial {{ type filter hook input priority -10; policy accept; }}
add rule inet {name} trial tcp dport @ports iifname "lo" ip daddr 127.0.0.0/8 accept
add rule inet {name} trial tcp dport @ports iifname "lo" ip6 daddr ::1 accept
add rule inet {name} trial tcp dport @ports reject with tcp reset comment "ddtune: a trial is judged"
add element inet {name} ports {{ {elements} }}
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
