"""The transaction on a real systemd, driven through the helper: every way that it may end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from tests.e2e import onhost
from tests.e2e.guest import wait_until
from tests.e2e.onhost import UNIT, OnHost

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnHost]:
    with onhost.adopted(tmp_path_factory.mktemp("onhost"), DDTUNE_SIM_TRAFFIC="0", DDTUNE_SIM_SPEED="200") as host:
        yield host


def _guard(op: str) -> str:
    return f"ddtune-guard-{op}.service"


def _ends(host: OnHost, op: str) -> list[tuple[str, str | None]]:
    lines = [line for line in host.history(op) if line["event"] not in ("armed", "swapped")]
    return [(line["event"], line["cause"]) for line in lines]


def _back(host: OnHost, op: str, cause: str) -> None:
    """``op`` was rolled back for ``cause``, stable serves, and nothing is left."""
    txn = host.wait_settled(op)
    assert (txn["state"], txn["cause"]) == ("ROLLED_BACK", cause), txn
    assert host.budget() == "8"
    assert host.guest.ready()
    assert _ends(host, op) == [("rolled_back" if cause != "aborted" else "aborted", cause)]
    assert not host.guest.file(f"{onhost.RUN}/trial").is_symlink()
    wait_until("the guard is gone", lambda: host.guest.show("LoadState", _guard(op)) == "not-found")


def test_start_goes_through_the_launcher_with_systemds_environment(host: OnHost) -> None:
    before = host.guest.main_env()
    host.guest.console(["systemctl", "restart", UNIT])
    wait_until("the service serves", host.guest.ready, 60)
    after = host.guest.main_env()
    own = {"INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID"}
    assert {k: v for k, v in after.items() if k not in own} == {k: v for k, v in before.items() if k not in own}
    assert after["INVOCATION_ID"] == host.guest.show("InvocationID") != before["INVOCATION_ID"]
    assert host.budget() == "8"
    assert host.guest.out(["stat", "-c", "%a %U %G", f"{onhost.RUN}/chosen"]) == "440 root sglang"


def test_fatal_line_is_answered_within_a_second(host: OnHost, numbers: dict[str, float]) -> None:
    """The engine would keep its port for 65 s of real time, and does not hear SIGTERM meanwhile."""
    op = host.trial(host.put(16, DDTUNE_SIM_SPEED="1", DDTUNE_SIM_WARM="1"))
    host.wait_ready(op)
    body = {"text": ["Tell a story."] * 16, "sampling_params": {"max_new_tokens": 4000}}
    script = (
        f"import urllib.request as u;u.urlopen(u.Request('http://127.0.0.1:{host.guest.api_port}/generate',"
        f"{json.dumps(body).encode()!r},{{'Content-Type':'application/json'}}),timeout=15)"
    )
    host.guest.console([onhost.PYTHON, "-c", script], check=False)
    _back(host, op, "illegal_memory_access")
    txn = host.txn()
    line = next(entry for entry in txn["evidence"] if "illegal memory access" in entry["text"])
    written = line["at"] - txn["wall_at"] + txn["armed_at"]
    numbers["fatal line to rollback begun"] = txn["times"]["rollback_begun"] - written
    numbers["fatal line to stopped"] = txn["times"]["rollback_stopped"] - written
    assert txn["times"]["rollback_begun"] - written < 1
    assert 4 < txn["times"]["rollback_stopped"] - written < 30
    quarantine = host.file(f"{onhost.STATE}/quarantine/{txn['candidate']}.json")
    assert (quarantine["cause"], quarantine["op"]) == ("illegal_memory_access", op)
    again = host.call("arm", op="20261129190000-again", kind="switch", owner=onhost.OWNER, lease_s=60,
                      candidate=txn["candidate"], confirm_deadline_s=60)  # fmt: skip
    assert again["cause"] == "quarantined"


def test_bad_flag_is_told_at_once(host: OnHost) -> None:
    op = host.trial(host.put(8, "--no-such-flag"))
    _back(host, op, "bad_flags")
    assert "no-such-flag" in host.txn()["evidence"][0]["text"]


def test_killed_engine_is_noticed(host: OnHost) -> None:
    op = host.trial(host.put(9, "--disable-cuda-graph"))
    host.wait_ready(op)
    host.guest.console(["systemctl", "kill", "-s", "KILL", UNIT])
    _back(host, op, "engine_dead")

    # The controller's gate on stable comes after the guard's own proof, and may overrule it.
    host.ok("settle", op=op, ok=False, cause="garbage_output")
    txn = host.wait_settled(op)
    assert txn["state"] == "ROLLBACK_FAILED"
    assert host.guest.show("ActiveState") in ("inactive", "failed")
    assert _ends(host, op)[-1] == ("rollback_failed", "engine_dead")
    host.guest.console(["systemctl", "start", UNIT])
    wait_until("stable starts by hand", host.guest.ready, 60)


def test_restart_by_hand_is_drift_and_blames_nobody(host: OnHost) -> None:
    op = host.trial(host.put(10, "--disable-cuda-graph"))
    host.wait_ready(op)
    # Not waited for: the way back may cancel it.
    host.guest.console(["systemctl", "--no-block", "restart", UNIT])
    _back(host, op, "drift")
    assert not host.guest.file(f"{onhost.STATE}/quarantine/{host.txn()['candidate']}.json").exists()


def test_lease_lost_before_the_stop_restarts_nothing(host: OnHost) -> None:
    before = host.guest.show("InvocationID")
    op = host.arm(host.put(11), lease_s=3)
    host.ok("swap", op=op)
    _back(host, op, "lease_lost")
    assert host.guest.show("InvocationID") == before


def test_guard_killed_at_every_moment_of_a_rollback(host: OnHost) -> None:
    op = host.trial(host.put(13, "--disable-cuda-graph"))
    host.wait_ready(op)
    host.ok("fail", op=op, cause="wrong_output")
    killed = set()

    def kill_in_each_phase() -> bool:
        txn = host.txn()
        phase = (txn.get("restore") or {}).get("phase")
        if phase and phase not in killed and not txn["settled"]:
            pid = host.guest.show("MainPID", _guard(op))
            if pid != "0":
                host.guest.console(["kill", "-9", pid], check=False)
                killed.add(phase)
        return bool(txn["settled"])

    wait_until("the rollback is over", kill_in_each_phase, 90, every=0.01)
    assert "check" in killed
    _back(host, op, "wrong_output")


def test_a_dead_guard_that_systemd_lost_is_called_back_by_the_crash(host: OnHost) -> None:
    op = host.trial(host.put(14, "--disable-cuda-graph"))
    host.wait_ready(op)
    host.guest.console(["systemctl", "stop", _guard(op)])
    host.guest.console(["systemctl", "start", f"ddtune-ended@{UNIT}.service"])
    assert host.guest.show("ActiveState", _guard(op)) != "active", "nothing has ended unasked"
    host.guest.console(["systemctl", "kill", "-s", "KILL", UNIT])
    # With no guard the launcher alone brings stable back; the guard is only needed to say so.
    wait_until("stable serves", lambda: host.guest.ready() and host.budget() == "8", 60)
    assert host.txn()["state"] == "ROLLED_BACK"
    host.guest.console(["systemctl", "start", f"ddtune-ended@{UNIT}.service"])
    _back(host, op, "engine_dead")


def test_hang_in_the_start_meets_its_deadline(host: OnHost) -> None:
    op = host.trial(host.put(15), start_deadline_s=1)
    _back(host, op, "start_hang")


def test_abort_and_a_late_confirm(host: OnHost) -> None:
    op = host.trial(host.put(11, "--disable-cuda-graph"))
    host.wait_ready(op)
    judged = host.guest.show("InvocationID")
    host.ok("abort", op=None)
    assert not host.call("confirm", op=op, invocation=judged)["ok"]
    _back(host, op, "aborted")


def test_damaged_txn_is_put_back_and_rolled_back(host: OnHost) -> None:
    op = host.trial(host.put(12, "--disable-cuda-graph"))
    host.wait_ready(op)
    host.guest.console(["sh", "-c", f"echo '{{' > {onhost.RUN}/txn.json"])
    wait_until("the guard has put it back", lambda: host.txn().get("op") == op)
    _back(host, op, "unknown")


def test_commit_then_late_crash_goes_to_previous_once(host: OnHost) -> None:
    before = os.path.basename(os.readlink(host.guest.file(f"{onhost.STATE}/stable")))
    op = host.trial(host.put(7), probation_s=600)
    host.wait_ready(op)
    host.ok("soak", op=op)
    assert host.ok("confirm", op=op, invocation=host.guest.show("InvocationID"))["txn"]["state"] == "COMMITTED"
    assert _ends(host, op) == [("committed", None)]
    wait_until("the guard is gone", lambda: host.guest.show("LoadState", _guard(op)) == "not-found")

    host.guest.console(["systemctl", "restart", UNIT])
    wait_until("an asked restart changes nothing", lambda: host.guest.ready() and host.budget() == "7", 60)
    host.guest.console(["systemctl", "kill", "-s", "KILL", UNIT])
    wait_until("previous serves", lambda: host.guest.ready() and host.budget() == "8", 60)
    assert os.path.basename(os.readlink(host.guest.file(f"{onhost.STATE}/stable"))) == before
    assert ("late_crash", "engine_dead") in _ends(host, op)
    host.guest.console(["systemctl", "kill", "-s", "KILL", UNIT])
    wait_until("stable starts again after its own crash", lambda: host.guest.ready() and host.budget() == "8", 60)


def test_reboot_in_mid_trial_lands_on_stable(host: OnHost) -> None:
    op = host.trial(host.put(6))
    host.wait_ready(op)
    host.guest.power_cut()
    host.guest.boot()
    wait_until("stable serves", lambda: host.guest.ready() and host.budget() == "8", 60)
    assert _ends(host, op) == [("rolled_back", "killed")]
    assert host.txn() == {}


def test_stable_that_does_not_serve_ends_stopped_and_loud(host: OnHost) -> None:
    """The very last resort: both tries of stable fail, and a person must act."""
    op = host.trial(host.put(11, "--disable-cuda-graph"), canary={**onhost.CANARY, "expect": "no such text"})
    host.wait_ready(op)
    host.ok("fail", op=op, cause="slow")
    txn = host.wait_settled(op, 90)
    assert (txn["state"], txn["cause"]) == ("ROLLBACK_FAILED", "slow")
    assert host.guest.show("ActiveState") in ("inactive", "failed")
    assert _ends(host, op) == [("rollback_failed", "slow")]
    crit = host.guest.out(["journalctl", "--no-pager", "-b", "-p", "crit", "-o", "cat"])
    assert "a person must act" in crit
    host.guest.console(["systemctl", "reset-failed", UNIT])
    host.guest.console(["systemctl", "start", UNIT])
    wait_until("stable starts by hand", lambda: host.guest.ready() and host.budget() == "8", 60)
