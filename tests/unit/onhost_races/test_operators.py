"""Two operators on two machines ask at the same moment: exactly one wins, and the other is told.

`make faults` has a thousand of these races.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from multiprocessing.synchronize import Barrier
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddtune.onhost import arming, clock, ledger, releases
from ddtune.onhost import txn as t
from ddtune.onhost.context import RefusalError
from ddtune.onhost.paths import Paths, UnitPaths
from ddtune.onhost.unit import SystemctlError, guard_unit
from tests.unit.onhost_guard.fake import Bench

RACES = 1000 if os.environ.get("DDTUNE_TEST_LONG") else 100
WHO = ("ada", "bob")


def _arm(paths: UnitPaths, stable: str, who: str, turn: int) -> t.Refused | None:
    def make(at: float) -> t.Event:
        return t.Arm(
            at,
            t.Txn(
                op=f"{turn:04d}-{who}", kind="switch", unit=paths.unit, owner={"who": who, "host": f"{who}s-laptop"},
                boot_id=clock.boot_id(), armed_at=at, wall_at=clock.wall(), candidate=stable, stable=stable,
                lease_s=60.0, lease_until=at + 60, confirm_deadline=at + 100,
            ),
        )  # fmt: skip

    return ledger.apply(paths, make).refused


def _operator(root: str, stable: str, who: str, barrier: Barrier, out: str) -> None:
    """One of the two: arms at each turn, and ends its own when it has won and the other has been told."""
    paths = Paths(root).unit("engine.service")
    said: list[dict[str, Any]] = []
    for turn in range(RACES):
        barrier.wait()
        refused = _arm(paths, stable, who, turn)
        barrier.wait()
        txn = ledger.load(paths)
        assert txn is not None
        entry: dict[str, Any] = {"won": refused is None, "holds": txn.op}
        if refused is not None:
            entry |= {"cause": refused.cause, "told": refused.message}
            # Fenced: nothing that the loser asks of its own transaction does anything.
            mine = f"{turn:04d}-{who}"
            late = [
                ledger.apply(paths, lambda at, op=mine: t.Renew(at, op)),  # type: ignore[misc]  # op is bound now
                ledger.apply(paths, lambda at, op=mine: t.Swap(at, op)),  # type: ignore[misc]  # op is bound now
            ]
            entry["fenced"] = all(one.refused is not None for one in late)
        barrier.wait()
        if refused is None:
            ledger.apply(paths, lambda at: t.Abort(at, None))
        said.append(entry)
    Path(out).write_text(json.dumps(said))


@pytest.mark.timeout(900)
def test_two_operators_again_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(tmp_path / "root")
    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier(2)
    outs = [str(tmp_path / who) for who in WHO]
    both = [
        fork.Process(target=_operator, args=(str(tmp_path / "root"), bench.stable, who, barrier, out))
        for who, out in zip(WHO, outs, strict=True)
    ]
    for one in both:
        one.start()
    for one in both:
        one.join(880)
        assert one.exitcode == 0
    ada, bob = (json.loads(Path(out).read_text()) for out in outs)
    for turn, (one, other) in enumerate(zip(ada, bob, strict=True)):
        assert one["won"] != other["won"], f"turn {turn}: {one} {other}"
        winner, loser = (WHO[0], other) if one["won"] else (WHO[1], one)
        assert one["holds"] == other["holds"] == f"{turn:04d}-{winner}"
        assert loser["cause"] == "busy"
        assert f"{winner}@{winner}s-laptop" in loser["told"]
        assert loser["fenced"]
    wins = sum(one["won"] for one in ada)
    with capsys.disabled():
        print(f"\n{RACES} races of two operators: ada won {wins}, bob {RACES - wins}")
    assert min(wins, RACES - wins) > RACES / 50, "both must win for it to be a race"
    armed = [line["op"] for line in releases.history(bench.paths, 10_000) if line["event"] == "armed"]
    assert len(armed) == RACES, "who lost began nothing"


def test_taking_over_is_an_act_that_stands_in_the_history_and_fences_the_old_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "root")
    assert _arm(bench.paths, bench.stable, "ada", 1) is None
    refused = _arm(bench.paths, bench.stable, "bob", 2)
    assert refused is not None
    assert refused.detail["owner"]["who"] == "ada"
    assert refused.detail["until"] > refused.detail["since"]
    ledger.apply(bench.paths, lambda at: t.Abort(at, None))
    assert _arm(bench.paths, bench.stable, "bob", 3) is None
    late = ledger.apply(bench.paths, lambda at: t.Confirm(at, "0001-ada", "inv", "inv"))
    assert late.refused is not None
    events = [(line["op"], line["event"]) for line in releases.history(bench.paths)]
    assert events == [("0001-ada", "armed"), ("0001-ada", "aborted"), ("0003-bob", "armed")]


def test_fields_of_a_newer_version_do_not_get_in_the_way(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "root")
    assert _arm(bench.paths, bench.stable, "ada", 1) is None
    found = json.loads(Path(bench.paths.txn).read_text())
    Path(bench.paths.txn).write_text(json.dumps({**found, "of_next_year": {"x": 1}}))
    assert ledger.load(bench.paths) is not None
    Path(bench.paths.txn).write_text(json.dumps({**found, "proto": 2}))
    with pytest.raises(t.TxnError):
        ledger.load(bench.paths)
    assert os.path.exists(bench.paths.txn), "what cannot be read is not thrown away"


def test_a_guard_that_the_other_ones_call_has_brought_is_the_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = Paths(str(tmp_path)).unit("engine.service")
    asked: list[float] = []

    def too_late(unit: str, op: str) -> None:
        raise SystemctlError(f"Unit {guard_unit(op)}.service of {unit} was already loaded")

    def seen(_: UnitPaths, op: str, limit_s: float) -> bool:
        asked.append(limit_s)
        return op == "0000-ada"

    monkeypatch.setattr(arming, "wait_for_guard", seen)
    host: Any = SimpleNamespace(systemctl=SimpleNamespace(run_guard=too_late))
    assert arming.start_guard(host, paths, "0000-ada")["unit"] == guard_unit("0000-ada")
    with pytest.raises(RefusalError, match="already loaded"):
        arming.start_guard(host, paths, "0000-bob")
    assert max(asked) <= 5, "whoever asks waits for an answer"
