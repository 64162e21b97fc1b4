"""What a start runs, by all that may lie on the host."""

from __future__ import annotations

import fcntl
import os
from dataclasses import replace

import pytest

from ddtune.onhost import choose, ledger, releases, store
from ddtune.onhost import txn as t
from ddtune.onhost.paths import UnitPaths
from tests.unit.onhost_start.rig import UNIT, Rig


def test_stable_without_a_transaction(rig: Rig) -> None:
    chosen = rig.choose()
    assert (chosen["which"], chosen["release"]) == ("stable", rig.stable)
    assert os.stat(rig.paths.chosen).st_mode & 0o777 == 0o440


def test_trial_once_then_stable(rig: Rig) -> None:
    rig.arm()
    first = rig.choose("inv1")
    assert (first["which"], first["release"], first["op"]) == ("trial", rig.candidate, "op")
    assert rig.txn().trial_invocation == "inv1"
    assert rig.choose("inv2")["which"] == "stable"
    assert (rig.txn().state, rig.txn().cause) == (t.ROLLED_BACK, "start_failed")
    assert not os.path.lexists(rig.paths.trial)


def test_armed_is_not_yet_a_trial(rig: Rig) -> None:
    rig.arm(swap=False)
    assert rig.choose()["which"] == "stable"
    assert rig.txn().state == t.ARMED


@pytest.mark.parametrize("changes", [{"lease_until": 1.0}, {"confirm_deadline": 1.0}, {"boot_id": "another"}])
def test_time_and_boot_are_checked_by_the_launcher_itself(rig: Rig, changes: dict[str, object]) -> None:
    rig.arm()
    ledger.write(rig.paths, replace(rig.txn(), **changes))  # type: ignore[arg-type]
    assert rig.choose()["which"] == "stable"
    assert rig.txn().state == t.ROLLED_BACK


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"state": "TRIAL"}', b"\xff\xfe"])
def test_damaged_transaction_means_stable(rig: Rig, content: bytes) -> None:
    with open(rig.paths.txn, "wb") as file:
        file.write(content)
    assert rig.choose()["which"] == "stable"


def test_dangling_trial_ends_the_transaction(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    rig.arm()
    os.unlink(rig.paths.trial)
    os.symlink("/nowhere", rig.paths.trial)
    assert choose.choose(rig.paths, "inv1") == "stable"
    assert (rig.txn().state, rig.txn().trial_invocation) == (t.ROLLED_BACK, None)
    assert "the trial cannot be started" in capsys.readouterr().err


def test_trial_that_was_decided_meanwhile_is_no_alarm(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Between the reading of txn.json and the lock somebody aborts."""
    rig.arm()
    read = ledger.load

    def overtaken(paths: UnitPaths) -> t.Txn | None:
        monkeypatch.setattr(ledger, "load", read)
        known = read(paths)
        ledger.apply(paths, lambda at: t.Abort(at, "op"))
        return known

    monkeypatch.setattr(ledger, "load", overtaken)
    assert choose.choose(rig.paths, "inv1") == "stable"
    assert rig.txn().state == t.ROLLED_BACK
    assert capsys.readouterr().err == ""


def test_changed_candidate_is_not_started(rig: Rig) -> None:
    rig.arm()
    os.chmod(rig.paths.release(rig.candidate), 0o640)
    with open(rig.paths.release(rig.candidate), "a", encoding="utf-8") as file:
        file.write(" ")
    assert rig.choose()["which"] == "stable"
    assert "hash" in rig.txn().evidence[0]["text"]


@pytest.mark.parametrize("broken", ["link", "release", "nothing"])
def test_broken_stable_means_the_newest_that_passed(rig: Rig, broken: str) -> None:
    older, newer = rig.put("older"), rig.put("newer")
    for op, sha in (("1", older), ("2", newer)):
        releases.add_history(rig.paths, {"op": op, "event": "committed", "to": {"release": sha}})
    if broken == "link":
        store.swap_link(rig.paths.stable, "releases/" + "0" * 64)
    elif broken == "nothing":
        os.unlink(rig.paths.stable)
    else:
        os.unlink(rig.paths.release(rig.stable))
    done = rig.run("choose", UNIT)
    assert b"<2>" in done.stderr
    assert b"newer" in done.stderr
    assert rig.choose()["release"] == newer


def test_a_held_lock_does_not_hold_the_start(rig: Rig) -> None:
    rig.arm()
    with open(rig.paths.lock, "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert rig.choose()["which"] == "stable"
    assert rig.txn().trial_invocation is None


def test_reboot_closes_what_it_cut_off(rig: Rig) -> None:
    rig.arm()
    history = releases.history(rig.paths)
    os.unlink(rig.paths.history)
    for line in history:
        store.append_line(rig.paths.history, {**line, "boot_id": "the boot before"})
    os.unlink(rig.paths.txn)
    assert rig.choose()["which"] == "stable"
    rig.choose("inv2")
    ends = [line for line in releases.history(rig.paths) if line["event"] in releases.ENDS]
    assert [(line["op"], line["outcome"], line["cause"]) for line in ends] == [("op", "rolled_back", "killed")]
    assert ends[0]["text"] == "the host was restarted while the trial ran"


def test_power_cut_behind_the_moved_link_is_a_commit(rig: Rig) -> None:
    rig.arm()
    lines = [{**line, "boot_id": "the boot before"} for line in releases.history(rig.paths)]
    os.unlink(rig.paths.history)
    for line in lines:
        store.append_line(rig.paths.history, line)
    os.unlink(rig.paths.txn)
    releases.set_stable(rig.paths, rig.candidate)
    assert rig.choose()["release"] == rig.candidate
    assert releases.history(rig.paths)[-1]["event"] == "committed"


def test_intent_to_commit_is_rolled_forward_by_a_start(rig: Rig) -> None:
    rig.arm(probation_s=60.0)
    rig.choose()
    ledger.write(rig.paths, replace(rig.txn(), state=t.COMMITTING))
    assert rig.choose("inv2")["release"] == rig.candidate
    assert rig.txn().state == t.COMMITTED
    assert releases.previous(rig.paths) == rig.stable
    assert (store.read_json(rig.paths.probation) or {})["release"] == rig.candidate


def test_unasked_end_in_probation_goes_to_previous_once(rig: Rig) -> None:
    rig.probation(ended={"result": "signal", "code": "killed", "status": "9", "at": 1.0})
    assert rig.choose()["release"] == rig.stable
    assert releases.stable(rig.paths) == rig.stable
    assert (releases.quarantined(rig.paths, rig.candidate) or {})["cause"] == "engine_dead"
    assert [line["event"] for line in releases.history(rig.paths)] == ["late_crash"]
    assert store.read_json(rig.paths.probation) is None
    assert rig.choose("inv2")["release"] == rig.stable


def test_probation_without_a_mark_changes_nothing(rig: Rig) -> None:
    rig.probation()
    assert rig.choose()["release"] == rig.candidate
