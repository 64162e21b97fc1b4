"""The guard, to each end that needs an injected fault."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from ddtune.onhost import alive, canary, canary_mark, clock, guard, ledger, releases, restore, scrub, store
from ddtune.onhost import txn as t
from ddtune.onhost.hand import remembered
from tests.unit.onhost_guard.fake import UNIT, Bench

XID = "NVRM: Xid (PCI:0000:1b:00): {}, {}"


def test_application_xid_rolls_back_and_blames_the_candidate(bench: Bench) -> None:
    bench.trial()
    bench.line(XID.format(31, "pid=4194303, name=python3, MMU Fault"), "kernel")
    txn = bench.guard()
    assert (txn.state, txn.cause, bench.unit.runs) == (t.ROLLED_BACK, "xid_app", "stable")
    assert releases.quarantined(bench.paths, bench.candidate)
    assert bench.ends() == ["rolled_back"]


def test_the_engines_own_line_explains_an_xid(bench: Bench) -> None:
    bench.trial()
    bench.line(XID.format(31, "pid=4194303"), "kernel")
    bench.line("CUDA error: an illegal memory access was encountered")
    txn = bench.guard()
    assert txn.cause == "illegal_memory_access"
    assert [entry["source"] for entry in txn.evidence] == ["kernel", "unit"]


def test_evidence_that_cannot_be_cleaned_stops_no_way_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("base.json is not what it was")

    monkeypatch.setattr(scrub, "secrets_kept", broken)
    bench.trial()
    bench.line("CUDA error: an illegal memory access was encountered, api_key='sk-planted'")
    txn = bench.guard()
    assert (txn.state, txn.cause, bench.unit.runs) == (t.ROLLED_BACK, "illegal_memory_access", "stable")
    assert txn.evidence == ()


def test_a_key_in_the_engines_last_words_is_not_kept(bench: Bench) -> None:
    bench.trial()
    bench.line("CUDA error: an illegal memory access was encountered, api_key='sk-planted'")
    (entry,) = bench.guard().evidence
    assert "illegal memory access" in entry["text"]
    assert "sk-planted" not in entry["text"]


def test_xid_of_somebody_elses_process_and_of_a_teardown_are_let_pass(bench: Bench) -> None:
    bench.trial()
    hand = bench.hand()
    bench.line(XID.format(31, f"pid={os.getpid()}, name=other"), "kernel")
    bench.line(XID.format(45, "pid=4194303"), "kernel")
    bench.line(XID.format(154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"), "kernel")
    assert not guard.Guard(hand).read_lines(0.05)
    assert ledger.load(bench.paths).state == t.TRIAL  # type: ignore[union-attr]


@pytest.mark.parametrize("words", ["pid=4194303, name=python3, MMU Fault", "Ch 00000008"])
def test_xid_that_may_be_the_graph_canarys_is_let_pass(bench: Bench, words: str) -> None:
    bench.trial()
    hand = bench.hand()
    canary_mark.write(bench.paths, [4194303], clock.wall() - 1, clock.wall() + 600)
    bench.line(XID.format(31, words), "kernel")
    assert not guard.Guard(hand).read_lines(0.05)
    canary_mark.write(bench.paths, [4194303], clock.wall() - 60, clock.wall() - 30)
    bench.line(XID.format(31, "pid=4194302, name=python3"), "kernel")
    assert guard.Guard(hand).read_lines(0.05)


@pytest.mark.parametrize(
    ("number", "rest", "cause", "action"),
    [
        (79, "GPU has fallen off the bus.", "gpu_lost", "restart the host"),
        (95, "Uncontained ECC error", "xid_hardware", "reset the GPU"),
        (154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "xid_hardware", "Reboot"),
    ],
)
def test_hardware_fault_is_a_persons_to_act_on(bench: Bench, number: int, rest: str, cause: str, action: str) -> None:
    bench.trial()
    bench.line(XID.format(number, rest), "kernel")
    txn = bench.guard()
    assert (txn.state, txn.cause) == (t.HOST_ACTION_REQUIRED, cause)
    assert action in str(txn.action)
    assert bench.unit.calls.count("start") == 1
    assert releases.quarantined(bench.paths, bench.candidate) is None
    assert bench.ends() == ["host_action_required"]


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (
            (
                "NVRM: The NVIDIA GPU 0000:b3:00.0",
                "NVRM: (PCI ID: 10de:26b5) installed in this system has",
                "NVRM: fallen off the bus and is not responding to commands.",
            ),
            "a GPU has fallen off the bus: restart the host",
        ),
        (
            ("NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.",),
            "GPU 0000:b3:00 has fallen off the bus: restart the host",
        ),
    ],
)
def test_a_gpu_that_is_gone_without_an_xid_is_no_fault_of_the_trial(
    bench: Bench, lines: tuple[str, ...], named: str
) -> None:
    bench.trial()
    for line in lines:
        bench.line(line, "kernel")
    bench.line("CUDA error: an illegal memory access was encountered")
    txn = bench.guard()
    assert (txn.state, txn.cause) == (t.HOST_ACTION_REQUIRED, "gpu_lost")
    assert named in str(txn.action)
    assert releases.quarantined(bench.paths, bench.candidate) is None


def test_hardware_fault_that_stable_does_not_survive_leaves_the_unit_stopped(bench: Bench) -> None:
    bench.trial()
    bench.unit.dies = lambda which: which == "stable"
    bench.line(XID.format(79, "gone"), "kernel")
    txn = bench.guard()
    assert (txn.state, txn.settled, bench.unit.runs) == (t.HOST_ACTION_REQUIRED, True, None)
    assert bench.unit.calls.count("start") == 1


def test_line_of_an_earlier_start_decides_nothing(bench: Bench) -> None:
    old = bench.unit.invocation
    bench.trial()
    bench.line("an illegal memory access was encountered", invocation=old)
    assert not guard.Guard(bench.hand()).read_lines(0.05)


def test_engine_that_does_not_hear_is_killed_after_its_grace(bench: Bench) -> None:
    bench.trial()
    bench.unit.stubborn = "TERM"
    bench.line("an illegal memory access was encountered")
    txn = bench.guard()
    assert txn.state == t.ROLLED_BACK
    assert bench.unit.calls[:2] == ["stop", "kill"]
    times = txn.times
    assert times["rollback_begun"] <= times["rollback_stopped"] <= times["serving"] <= times["ended"]
    assert times["rollback_stopped"] - times["rollback_begun"] >= txn.stop_grace_s


def test_process_that_survives_kill_needs_a_person(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore, "KILL_S", 0.1)
    bench.trial()
    bench.unit.stubborn = "KILL"
    bench.apply(lambda at: t.Fail(at, "op", "slow"))
    txn = bench.guard()
    assert (txn.state, txn.cause, txn.settled) == (t.HOST_ACTION_REQUIRED, "residue", True)
    assert "restart the host" in str(txn.action)
    assert "start" not in bench.unit.calls


def test_stable_that_fails_twice_is_left_stopped(bench: Bench) -> None:
    bench.trial()
    bench.unit.dies = lambda which: which == "stable"
    bench.apply(lambda at: t.Fail(at, "op", "slow"))
    txn = bench.guard()
    assert (txn.state, txn.cause, bench.unit.runs) == (t.ROLLBACK_FAILED, "slow", None)
    assert bench.unit.calls.count("start") == 2
    assert bench.ends() == ["rollback_failed"]


def test_stable_that_answers_wrongly_is_no_stable(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise canary.WrongError("a known prompt was answered with '!!!!'")

    bench.trial()
    monkeypatch.setattr(canary, "try_once", wrong)
    bench.apply(lambda at: t.Fail(at, "op", "slow"))
    txn = bench.guard()
    assert txn.state == t.ROLLBACK_FAILED
    assert "!!!!" in txn.evidence[-1]["text"]


def test_trial_that_systemd_restarted_runs_stable_already(bench: Bench) -> None:
    bench.trial()
    bench.unit.crash()
    bench.unit.start(UNIT)
    bench.unit.calls.clear()
    assert bench.unit.runs == "stable"
    txn = bench.guard()
    assert (txn.state, txn.cause) == (t.ROLLED_BACK, "start_failed")
    assert "start" not in bench.unit.calls


def test_launcher_that_did_not_choose_is_noticed(bench: Bench) -> None:
    bench.arm()
    bench.apply(lambda at: t.Swap(at, "op"))
    bench.unit.serial += 1
    txn = bench.guard()
    assert (txn.state, txn.cause) == (t.ROLLED_BACK, "start_failed")


def test_intent_to_commit_is_carried_out_by_the_guard(bench: Bench) -> None:
    bench.trial()
    txn = bench.apply(lambda at: t.Ready(at, "op"))
    ledger.write(bench.paths, replace(txn, state=t.COMMITTING))
    assert bench.guard().state == t.COMMITTED
    assert releases.stable(bench.paths) == bench.candidate
    assert releases.previous(bench.paths) == bench.stable
    assert bench.ends() == ["committed"]


def test_full_disk_does_not_stop_a_rollback(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.trial()
    bench.apply(lambda at: t.Fail(at, "op", "slow"))
    real = store.append_line

    def full(path: str, value: Any) -> None:
        raise store.DiskFull(path)

    monkeypatch.setattr(store, "append_line", full)
    txn = bench.guard()
    assert (txn.state, txn.settled, bench.unit.runs) == (t.ROLLED_BACK, True, "stable")
    monkeypatch.setattr(store, "append_line", real)
    ledger.apply(bench.paths, lambda at: t.Tick(at, "op"))
    assert bench.ends() == ["rolled_back"]


def test_full_run_folder_is_met_with_the_guards_ballast(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.trial()
    hand = bench.hand()
    ballast = bench.paths.run + "/ballast"
    real = store.stage

    def tight(path: str, *rest: Any) -> str:
        if os.path.exists(ballast):
            raise store.DiskFull(path)
        return real(path, *rest)

    monkeypatch.setattr(store, "stage", tight)
    assert hand.apply(lambda at: t.Fail(at, "op", "slow")).state == t.ROLLED_BACK


def test_damaged_file_is_put_back_from_memory(bench: Bench) -> None:
    bench.trial()
    hand = bench.hand()
    with open(bench.paths.txn, "w", encoding="utf-8") as file:
        file.write('{"op": ')
    guard.Guard(hand).run()
    txn = ledger.load(bench.paths)
    assert txn is not None
    assert (txn.state, txn.cause, bench.unit.runs) == (t.ROLLED_BACK, "unknown", "stable")


def test_damaged_file_is_put_back_by_a_guard_that_was_killed(bench: Bench) -> None:
    bench.trial()
    bench.hand().load()
    with open(bench.paths.txn, "w", encoding="utf-8") as file:
        file.write('{"op": ')
    with pytest.raises(t.TxnError):
        ledger.load(bench.paths)
    txn = remembered(bench.paths)
    assert txn is not None
    assert txn.state == t.TRIAL
    guard.Guard(bench.hand_on(txn)).run()
    assert ledger.load(bench.paths).state == t.ROLLED_BACK  # type: ignore[union-attr]


def test_second_guard_leaves_at_once(bench: Bench) -> None:
    bench.arm()
    held = alive.claim(bench.paths, "op")
    assert held is not None
    assert alive.guard_alive(bench.paths, "op")
    assert not alive.guard_alive(bench.paths, "other")
    assert alive.claim(bench.paths, "op", limit_s=0.05) is None
    os.close(held)
    assert not alive.guard_alive(bench.paths, "op")


def test_bad_gate_on_stable_after_the_rollback_stops_it(bench: Bench) -> None:
    bench.trial()
    bench.apply(lambda at: t.Fail(at, "op", "slow"))
    assert bench.guard().settled
    bench.apply(lambda at: t.Settle(at, "op", False, "garbage_output"))
    txn = bench.guard()
    assert (txn.state, bench.unit.runs) == (t.ROLLBACK_FAILED, None)
    assert bench.ends() == ["rolled_back", "rollback_failed"]


def test_guard_teaches_the_envelope_when_the_controller_is_gone(bench: Bench) -> None:
    bench.trial(lease_s=0.3)
    bench.apply(lambda at: t.Fail(at, "op", "garbage_output"))
    store.write_json(bench.paths.site, {"arch": "sm_103", "build": "x"})
    txn = bench.apply(lambda at: t.Tick(at, "op"))
    ledger.write(bench.paths, replace(txn, lease_until=0.0))
    bench.guard()
    entries = releases.envelope(bench.paths)
    assert [(entry["op"], entry["by"], entry["cause"]) for entry in entries] == [("op", "guard", "garbage_output")]
    assert not releases.add_envelope(bench.paths, {"op": "op"})
