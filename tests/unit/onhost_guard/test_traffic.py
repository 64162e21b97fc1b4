"""Held traffic: held while nobody has judged the trial, and lifted by whoever comes by, whatever died before."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ddtune.onhost import choose, choose_trial, guard, ledger, traffic
from ddtune.onhost import txn as t
from tests.unit.onhost_guard.fake import UNIT, Bench

# Its one table is the file "table"; while "broken" is there it says no to everything.
NFT = """#!/bin/sh
cd "{folder}" || exit 1
echo "$*" >>calls
[ -e broken ] && {{ echo "Error: Operation not supported" >&2; exit 1; }}
case "$1" in
--check) cat >/dev/null ;;
-f) cat >table ;;
list) [ -e table ] && echo "table inet {table}" ;;
delete) rm table ;;
esac
exit 0
"""


class Nft:
    """The host's nftables."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "nftables"
        self.folder.mkdir()
        program = root / "usr/sbin/nft"
        program.parent.mkdir(parents=True)
        program.write_text(NFT.format(folder=self.folder, table=traffic.table(UNIT)))
        program.chmod(0o755)

    @property
    def holds(self) -> bool:
        return (self.folder / "table").exists()

    def flush(self) -> None:
        (self.folder / "table").unlink()

    def break_(self, broken: bool = True) -> None:
        mark = self.folder / "broken"
        mark.touch() if broken else mark.unlink()


@pytest.fixture
def nft(tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Nft:
    for module in (choose, choose_trial):
        monkeypatch.setattr(module, "load_install", lambda: bench.install)
    monkeypatch.setattr(guard, "SLICE_S", 0.01)
    return Nft(tmp_path)


def _trial(bench: Bench) -> t.Txn:
    bench.trial(traffic="held")
    txn = ledger.load(bench.paths)
    assert txn is not None
    return txn


def test_whoever_starts_the_trial_it_is_held_first(bench: Bench, nft: Nft) -> None:
    """The launcher holds by itself: systemd, a hand or a dead controller may be the one that starts the unit."""
    txn = _trial(bench)
    assert nft.holds
    rules = (nft.folder / "table").read_text()
    assert "30000 timeout" in rules
    assert "tcp dport @ports reject with tcp reset" in rules
    traffic.match(bench.install, txn)
    assert nft.holds


def test_a_trial_that_cannot_be_held_is_not_started(bench: Bench, nft: Nft) -> None:
    bench.arm(traffic="held")
    bench.apply(lambda at: t.Swap(at, "op"))
    nft.break_()
    bench.unit.stop(UNIT)
    bench.unit.start(UNIT)
    assert bench.unit.runs == "stable"
    txn = ledger.load(bench.paths)
    assert txn is not None
    assert txn.state == t.ROLLED_BACK
    assert "Operation not supported" in txn.evidence[-1]["text"]


def test_open_traffic_asks_nft_nothing(bench: Bench, nft: Nft) -> None:
    bench.trial()
    bench.apply(lambda at: t.Fail(at, "op", "slow"))
    bench.guard()
    assert not (nft.folder / "calls").exists()


ENDS: dict[str, Callable[[Bench], object]] = {
    "failed gate": lambda bench: bench.apply(lambda at: t.Fail(at, "op", "garbage_output")),
    "fatal line": lambda bench: bench.line("an illegal memory access was encountered"),
    "hardware": lambda bench: bench.line("NVRM: Xid (PCI:0000:1b:00): 79, gone", "kernel"),
    "crash": lambda bench: bench.unit.crash(),
    "abort": lambda bench: bench.apply(lambda at: t.Abort(at, "op")),
}


@pytest.mark.parametrize("end", list(ENDS))
@pytest.mark.parametrize("stable", ["serves", "dies"])
def test_every_way_back_ends_open(bench: Bench, nft: Nft, end: str, stable: str) -> None:
    _trial(bench)
    bench.unit.dies = lambda which: which == "stable" and stable == "dies"
    ENDS[end](bench)
    txn = bench.guard()
    assert txn.settled
    assert txn.state in (t.ROLLED_BACK, t.ROLLBACK_FAILED, t.HOST_ACTION_REQUIRED)
    assert not nft.holds
    assert not os.path.lexists(bench.paths.held)


def test_lease_and_deadline_end_open(bench: Bench, nft: Nft) -> None:
    bench.trial(traffic="held", lease_s=0.2)
    assert nft.holds
    bench.apply(lambda at: t.Renew(at, "op"))
    assert bench.guard().cause == "lease_lost"
    assert not nft.holds


def test_it_is_held_until_the_trial_has_stopped(bench: Bench, nft: Nft, monkeypatch: pytest.MonkeyPatch) -> None:
    _trial(bench)
    seen = []
    stop, start = bench.unit.stop, bench.unit.start
    monkeypatch.setattr(bench.unit, "stop", lambda *a, **k: (seen.append(("stop", nft.holds)), stop(*a, **k))[1])
    monkeypatch.setattr(bench.unit, "start", lambda *a, **k: (seen.append(("start", nft.holds)), start(*a, **k))[1])
    bench.apply(lambda at: t.Fail(at, "op", "garbage_output"))
    bench.guard()
    assert seen == [("stop", True), ("start", False)]


def test_a_guard_that_was_killed_behind_the_end_is_followed_by_one_that_lifts(bench: Bench, nft: Nft) -> None:
    _trial(bench)
    bench.apply(lambda at: t.Ready(at, "op"))
    bench.apply(lambda at: t.Confirm(at, "op", bench.unit.invocation, bench.unit.invocation))
    assert nft.holds, "the helper died before it lifted, and so did the guard"
    txn = bench.guard()
    assert txn.state == t.COMMITTED
    assert not nft.holds


def test_a_lift_that_nft_refuses_is_tried_again_and_said_aloud(
    bench: Bench, nft: Nft, capfd: pytest.CaptureFixture[str]
) -> None:
    _trial(bench)
    bench.apply(lambda at: t.Fail(at, "op", "garbage_output"))
    nft.break_()
    bench.guard()
    assert nft.holds
    assert f"nft delete table inet {traffic.table(UNIT)}" in capfd.readouterr().err
    nft.break_(False)
    # No guard is left; the next start opens what is still closed.
    bench.unit.stop(UNIT)
    bench.unit.start(UNIT)
    assert not nft.holds


def test_rules_that_somebody_flushed_are_put_back(bench: Bench, nft: Nft) -> None:
    _trial(bench)
    nft.flush()
    guard.Guard(bench.hand()).look()
    assert nft.holds


@pytest.mark.parametrize("swapped", [False, True])
def test_nothing_is_lifted_before_the_trial_is_ready(bench: Bench, nft: Nft, swapped: bool) -> None:
    bench.trial(traffic="held") if swapped else bench.arm(traffic="held")
    early = t.refusal(ledger.apply(bench.paths, lambda at: t.Mark(at, "op", "lifted")).effects)
    assert early is not None
    assert "before it is ready" in early.message
    if not swapped:
        bench.apply(lambda at: t.Swap(at, "op"))
    txn = ledger.load(bench.paths)
    assert txn is not None
    assert traffic.held(txn)


def test_once_lifted_nothing_holds_again(bench: Bench, nft: Nft) -> None:
    _trial(bench)
    bench.apply(lambda at: t.Ready(at, "op"))
    bench.apply(lambda at: t.Mark(at, "op", "lifted"))
    assert nft.holds, "the helper died before it lifted"
    guard.Guard(bench.hand()).look()
    assert not nft.holds


def test_why_a_host_cannot_hold(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(traffic.CannotHoldError, match="no nft"):
        traffic.check(bench.install, UNIT, 30000)
    nft = Nft(tmp_path)
    traffic.check(bench.install, UNIT, 30000)
    assert not nft.holds
    nft.break_()
    with pytest.raises(traffic.CannotHoldError, match="Operation not supported"):
        traffic.check(bench.install, UNIT, 30000)


@pytest.mark.parametrize(
    ("argv", "env", "found"),
    [
        (["--port", "30000"], {}, []),
        (["--grpc-port", "40000"], {}, [40000]),
        (["--grpc-port=40000"], {"SGLANG_GRPC_PORT": "50051"}, [40000, 50051]),
        (["--disaggregation-bootstrap-port", "8998"], {}, [8998]),
        (["--grpc-po", "40000"], {}, [40000]),
        (["--smg-grpc-mode"], {}, [30001, 40000]),
        (["--smg-grpc-mode", "--smg-http-sidecar-port", "9100"], {}, [9100, 30001, 40000]),
        (["--grpc-port", "x", "--grpc-port"], {"SGLANG_GRPC_PORT": "99999"}, []),
        (["--nccl-port", "29500", "--grpc-port", "0"], {}, []),
    ],
)  # fmt: skip
def test_every_door_of_an_engine_is_known(argv: list[str], env: dict[str, str], found: list[int]) -> None:
    assert traffic.doors(30000, argv, env) == found


def test_what_is_held_once_stays_held(bench: Bench, nft: Nft, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that puts the rules back does not know the unit's environment, in which the launcher saw a port."""
    monkeypatch.setenv("SGLANG_GRPC_PORT", "50051")
    txn = _trial(bench)
    assert "30000 timeout" in (nft.folder / "table").read_text()
    assert ", 50051 timeout" in (nft.folder / "table").read_text()
    monkeypatch.delenv("SGLANG_GRPC_PORT")
    nft.flush()
    traffic.match(bench.install, txn)
    assert ", 50051 timeout" in (nft.folder / "table").read_text()
