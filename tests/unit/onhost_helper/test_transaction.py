"""The verbs that move a transaction, from the operator's side of the helper."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from ddtune.onhost.context import RefusalError
from ddtune.onhost.room import check_room
from tests.unit.onhost_helper.host import OWNER, UNIT, Host, wait_until

OP = "20261129185959-abc"
OTHER = "20261129190000-xyz"


@pytest.fixture
def armed(host: Host) -> Host:
    host.adopted()
    answer = host.arm(host.put("--speculative-ddtree-budget", "16"))
    assert answer["ok"], answer
    return host


def tried(host: Host) -> str:
    """Drives an armed transaction until its candidate serves; the trial's invocation."""
    host.ok("swap", op=OP)
    host.ok("stop", op=OP)
    host.ok("start", op=OP)
    wait_until("the candidate listens", host.listens)
    return host.invocation()


def test_a_switch_that_is_confirmed_moves_stable(armed: Host) -> None:
    before = armed.ok("state")
    invocation = tried(armed)
    assert armed.argv()[-1] == "16"
    armed.ok("ready", op=OP)
    assert armed.ok("soak", op=OP)["txn"]["state"] == "SOAK"
    txn = armed.ok("confirm", op=OP, invocation=invocation)["txn"]
    assert (txn["state"], txn["settled"]) == ("COMMITTED", True)
    after = armed.ok("state")
    assert after["stable"]["profile"] == "b16"
    assert after["previous"]["release"] == before["stable"]["release"]
    assert [line["event"] for line in after["history"]] == ["adopted", "armed", "swapped", "committed"]
    wait_until("the guard is gone", lambda: not armed.ok("state")["guard_alive"])


def test_arming_says_the_guard_and_the_times(host: Host) -> None:
    host.adopted()
    answer = host.arm(host.put("--speculative-ddtree-budget", "16"), tries=9)
    txn = answer["txn"]
    assert answer["guard"]["unit"] == f"ddtune-guard-{OP}"
    assert Path(f"/proc/{answer['guard']['pid']}").exists()
    assert txn["state"] == "ARMED"
    assert txn["owner"] == OWNER
    assert txn["lease_until"] == txn["armed_at"] + 120
    assert txn["confirm_deadline"] == txn["armed_at"] + 600
    assert txn["start_deadline"] is None
    assert txn["start_invocation"] == host.invocation()
    assert txn["journal_cursor"] == "s=1;i=2"
    # One below the unit's own burst of five.
    assert txn["tries_left"] == 4
    assert host.ok("state")["guard_alive"] is True


def test_the_second_operator_is_told_who_since_when_and_until_when(armed: Host) -> None:
    stable = armed.ok("state")["stable"]["release"]
    answer = armed.arm(stable, op=OTHER, owner={"who": "bob"})
    assert (answer["ok"], answer["cause"]) == (False, "busy")
    assert answer["message"].startswith("ada@laptop is changing")
    assert answer["detail"]["owner"] == OWNER
    assert answer["detail"]["until"] - answer["detail"]["since"] == pytest.approx(120)
    for verb in ("swap", "stop", "start", "renew", "ready", "soak"):
        assert armed.refused(verb, op=OTHER)[0] == "busy"
    assert armed.ok("state")["txn"]["state"] == "ARMED"


def test_an_arm_whose_answer_was_lost_is_answered_again(armed: Host) -> None:
    first = armed.ok("state")["txn"]
    again = armed.arm(first["candidate"])
    assert again["ok"], again
    assert again["txn"] == first
    assert again["guard"]["pid"] == json.loads(armed.file("run/ddtune", UNIT, "guard.json").read_text())["pid"]
    assert [line["event"] for line in armed.ok("state")["history"]] == ["adopted", "armed"]
    for other in ({"owner": {"who": "bob"}}, {"kind": "restart"}):
        assert armed.arm(first["candidate"], **other)["cause"] == "busy"


def test_an_op_of_the_history_begins_no_other_transaction(armed: Host) -> None:
    stable = armed.ok("state")["stable"]["release"]
    armed.ok("abort", op=OP)
    wait_until("the guard is gone", lambda: not armed.ok("state")["guard_alive"])
    owner = {"who": "bob", "host": "desk"}
    assert "begun on this host already" in armed.arm(stable, op=OP, owner=owner)["message"]
    # Also once another has come between, and where the volatile folder was lost.
    assert armed.arm(stable, op=OTHER, owner=owner)["ok"]
    armed.ok("abort", op=OTHER)
    wait_until("the guard is gone", lambda: not armed.ok("state")["guard_alive"])
    armed.file("run/ddtune", UNIT, "txn.json").unlink()
    assert "begun on this host already" in armed.arm(stable, op=OP, owner=owner)["message"]
    assert [line["event"] for line in armed.ok("state")["history"]] == ["adopted"] + ["armed", "aborted"] * 2


def test_nothing_swaps_without_a_guard_and_any_call_brings_it_back(armed: Host) -> None:
    guard = json.loads(armed.file("run/ddtune", UNIT, "guard.json").read_text())
    os.kill(guard["pid"], signal.SIGKILL)
    assert "guard" in armed.refused("swap", op=OP)[1]
    assert armed.ok("state")["txn"]["state"] == "ARMED"
    assert armed.ok("state")["guard_alive"] is False
    armed.ok("renew", op=OP)
    wait_until("the guard is back", lambda: armed.ok("state")["guard_alive"])
    armed.ok("swap", op=OP)


@pytest.mark.parametrize("fault", ["no-guard", "fail-guard"])
def test_without_a_living_guard_nothing_has_begun(host: Host, fault: str) -> None:
    host.adopted()
    pid = host.pid()
    sha = host.put("--speculative-ddtree-budget", "16")
    host.file("systemd", fault).touch()
    answer = host.arm(sha)
    assert (answer["ok"], answer["cause"]) == (False, "unknown")
    assert "the guard" in answer["message"]
    assert "nothing was changed" in answer["message"]
    state = host.ok("state")
    assert (state["txn"]["state"], state["txn"]["settled"]) == ("ROLLED_BACK", True)
    assert state["quarantine"] == []
    assert host.pid() == pid
    host.file("systemd", fault).unlink()
    assert host.arm(sha, op=OTHER)["ok"]


def test_a_quarantined_release_needs_force(host: Host) -> None:
    host.adopted()
    sha = host.put("--speculative-ddtree-budget", "16")
    record = {"release": sha, "op": "20261101000000-old", "cause": "garbage_output", "at": 1.0}
    host.state_file("quarantine").mkdir()
    host.state_file("quarantine", f"{sha}.json").write_text(json.dumps(record))
    answer = host.arm(sha)
    assert answer["cause"] == "quarantined"
    assert answer["message"] == "b16 is in quarantine on this host since 20261101000000-old: garbage_output"
    assert answer["detail"]["quarantine"] == record
    assert host.ok("state")["txn"] is None
    assert host.arm(sha, force=True)["txn"]["force"] is True


def test_a_drop_in_that_was_changed_is_drift(host: Host) -> None:
    host.adopted()
    sha = host.put("--speculative-ddtree-budget", "16")
    drop_in = host.file("etc/systemd/system", f"{UNIT}.d", "zz-ddtune.conf")
    text = drop_in.read_text()
    drop_in.write_text(text + "Nice=5\n")
    assert "was changed since ddtune wrote it" in host.arm(sha)["message"]
    drop_in.write_text(text)
    later = drop_in.with_name("zzz-local.conf")
    later.write_text("[Service]\nExecStart=\nExecStart=/bin/sleep 1000\n")
    host.systemctl("daemon-reload")
    answer = host.arm(sha)
    assert answer["cause"] == "drift"
    assert "starts something else than ddtune's launcher: /bin/sleep 1000" in answer["message"]
    assert host.ok("state")["txn"] is None


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("ExecStartPre=", "no longer has ddtune's ExecStartPre= (choose)"),
        ("ExecStopPost=", "no longer has ddtune's ExecStopPost= (ended)"),
        ("ExecStopPost=\nExecStopPost=-/bin/true", "no longer has ddtune's ExecStopPost= (ended)"),
        ("KillMode=process", "KillMode=process, which leaves ranks behind"),
    ],
)
def test_a_later_file_that_undoes_what_ddtune_does_around_a_start_is_drift(host: Host, setting: str, said: str) -> None:
    host.adopted()
    sha = host.put("--speculative-ddtree-budget", "16")
    later = host.file("etc/systemd/system", f"{UNIT}.d", "zzz-local.conf")
    later.write_text("[Service]\nNice=5\nExecStartPre=-/bin/true\nExecStopPost=-/bin/true\n")
    host.systemctl("daemon-reload")
    host.ok("accept")
    harmless = host.arm(sha)
    assert harmless["ok"], harmless
    host.ok("abort", op=OP)
    wait_until("the guard is gone", lambda: not host.ok("state")["guard_alive"])
    later.write_text(f"[Service]\n{setting}\n")
    host.systemctl("daemon-reload")
    answer = host.arm(sha, op=OTHER)
    assert answer["cause"] == "drift"
    assert said in answer["message"]
    assert str(later) in answer["message"]


def test_a_broken_stable_is_drift_and_an_unknown_candidate_is_refused(host: Host) -> None:
    stable = host.adopted()
    assert host.arm("0" * 64)["cause"] == "unknown"
    host.state_file("releases", stable, "release.json").unlink()
    assert host.arm(stable)["cause"] == "drift"


def test_a_key_that_cannot_be_read_refuses_before_anything_begins(host: Host) -> None:
    key = host.root / "no-key"
    key.write_text("sk-9\n")
    stable = host.adopted(api_key_file=str(key))
    key.unlink()
    answer = host.arm(stable, kind="restart")
    assert answer["message"] == f"the API key file {host.root}/no-key cannot be read: No such file or directory"
    assert host.ok("state")["txn"] is None


@pytest.mark.parametrize(("room", "inodes"), [(100, 10_000), (1_000_000, 3)])
def test_too_little_room_is_refused(monkeypatch: pytest.MonkeyPatch, room: int, inodes: int) -> None:
    full = os.statvfs_result((4096, 4096, 10**6, room, room, 10**6, inodes, inodes, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _path: full)
    with pytest.raises(RefusalError, match="too little room is left for /x") as refused:
        check_room("/x")
    assert refused.value.cause == "disk_full"


def test_a_file_system_without_an_inode_limit_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        os, "statvfs", lambda _path: os.statvfs_result((4096, 4096, 10**6, 9999, 9999, 0, 0, 0, 0, 255))
    )
    check_room("/x")


def test_stopping_kills_what_does_not_end(host: Host) -> None:
    host.adopted()
    host.arm(host.put("--speculative-ddtree-budget", "16"), stop_timeout_s=1)
    host.ok("swap", op=OP)
    host.file("systemd/stubborn").touch()
    answer = host.ok("stop", op=OP)
    assert answer["killed"] is True
    assert 1 <= answer["seconds"] < 8
    assert host.pid() == 0


def test_the_unit_is_stopped_and_started_only_in_a_trial(armed: Host) -> None:
    pid = armed.pid()
    assert "cannot be stopped: it is ARMED" in armed.refused("stop", op=OP)[1]
    assert "cannot be started: it is ARMED" in armed.refused("start", op=OP)[1]
    armed.ok("abort", op=OP)
    assert armed.refused("swap", op=OP)[0] == "aborted"
    assert armed.pid() == pid


def test_a_start_that_is_not_the_judged_one_is_not_confirmed(armed: Host) -> None:
    judged = tried(armed)
    armed.ok("ready", op=OP)
    assert armed.refused("confirm", op=OP, invocation="0" * 32)[0] == "engine_dead"
    armed.systemctl("restart", UNIT)
    wait_until("it listens again", armed.listens)
    assert armed.refused("confirm", op=OP, invocation=judged)[0] == "engine_dead"
    assert armed.ok("state")["stable"]["profile"] == "adopted"


def test_a_service_that_is_down_is_not_confirmed(armed: Host) -> None:
    judged = tried(armed)
    armed.ok("ready", op=OP)
    armed.systemctl("stop", UNIT)
    cause, message = armed.refused("confirm", op=OP, invocation=judged)
    assert cause == "engine_dead"
    assert "inactive (dead)" in message


def test_failing_decides_for_the_rollback_and_keeps_the_evidence(armed: Host) -> None:
    tried(armed)
    line = {"at": 5.0, "source": "unit", "rank": "TP3", "text": "CUDA error: \x1b[31man illegal memory access"}
    txn = armed.ok("fail", op=OP, cause="illegal_memory_access", evidence=[line])["txn"]
    assert (txn["state"], txn["cause"], txn["settled"]) == ("ROLLED_BACK", "illegal_memory_access", False)
    assert txn["evidence"] == [{**line, "text": "CUDA error: ?[31man illegal memory access"}]
    assert armed.refused("confirm", op=OP, invocation=armed.invocation())[0] == "illegal_memory_access"
    assert armed.arm(txn["stable"], op=OTHER)["cause"] == "busy"


def test_aborting_needs_no_name_and_something_to_abort(host: Host) -> None:
    host.adopted()
    assert host.refused("abort") == ("unknown", "no transaction is running on this host")
    host.arm(host.put("--speculative-ddtree-budget", "16"))
    txn = host.ok("abort", cause="operator_request")["txn"]
    assert (txn["state"], txn["cause"]) == ("ROLLED_BACK", "operator_request")


def test_renewing_moves_the_lease(armed: Host) -> None:
    before = armed.ok("state")["txn"]["lease_until"]
    answer = armed.ok("renew", op=OP)
    assert answer["txn"]["lease_until"] > before
    assert answer["txn"]["lease_until"] == pytest.approx(answer["boottime"] + 120, abs=5)


def test_a_damaged_transaction_is_said(armed: Host) -> None:
    armed.file("run/ddtune", UNIT, "txn.json").write_text("{")
    assert "is damaged" in armed.refused("renew", op=OP)[1]


def test_back_to_stable_by_hand(armed: Host) -> None:
    program = armed.root / "usr/local/sbin/ddtune-rollback"

    def by_hand() -> str:
        return subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout

    armed.ok("abort", op=OP)
    assert f"{UNIT}: already runs adopted" in by_hand()
    stable = armed.argv()
    armed.systemctl("stop", UNIT)
    assert f"{UNIT}: starts adopted" in by_hand()
    wait_until("stable listens", armed.listens)
    assert armed.argv() == stable


@pytest.mark.parametrize(
    ("said", "outcome"),
    [({"ok": True}, "passed"), ({"ok": False}, "failed"), ({"ok": False, "inconclusive": True}, "inconclusive")],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_the_history_has_the_verdict_on_what_runs(host: Host, said: dict[str, bool], outcome: str) -> None:
    host.adopted()
    host.ok("judged", text="agreement: cut by time", **said)
    line = host.ok("state")["history"][-1]
    assert (line["event"], line["outcome"], line["text"]) == ("judged", outcome, "agreement: cut by time")
