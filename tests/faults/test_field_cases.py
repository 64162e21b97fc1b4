"""Faults that were seen elsewhere, on a real systemd, by the numbers of the field cases."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.onhost import CANARY, OWNER
from tests.e2e.operator import HOST, Operator
from tests.faults.site import LIMITS, STABLE, UNIT, Site, adopted, kill, reached
from tests.faults.test_engine import main_process
from tests.faults.users import Users

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]
DROP_IN = f"/etc/systemd/system/{UNIT}.d"


def test_k5_01_start_limit_is_the_consequence_not_the_cause(own_site: Site) -> None:
    site = own_site
    site.guest.put(f"{DROP_IN}/10-limits.conf", "[Unit]\nStartLimitIntervalSec=120\nStartLimitBurst=3\n")
    site.guest.console(["systemctl", "daemon-reload"])
    site.host.ok("accept")
    op = site.host.trial(site.candidate(7, "--no-such-flag"), tries=5)
    txn = site.back(op, "bad_flags")
    assert txn["tries_left"] < 3, "the tries are kept below the unit's own burst"
    assert "unrecognized arguments" in txn["evidence"][0]["text"]
    assert site.guest.show("ActiveState") == "active"


def test_k5_02_restart_between_two_polls_is_a_crash(own_site: Site) -> None:
    site = own_site
    site.guest.put(f"{DROP_IN}/10-quick.conf", "[Service]\nRestartSec=20ms\n")
    site.guest.console(["systemctl", "daemon-reload"])
    site.host.ok("accept")
    op = site.trial(lease_s=120, tries=2)
    # Twenty milliseconds later the unit is active again, on the very same candidate.
    os.kill(main_process(site), signal.SIGKILL)
    site.back(op, "engine_dead")


def test_k5_05_drop_in_that_systemd_has_not_read(site: Site) -> None:
    path = f"{DROP_IN}/zz-ddtune.conf"
    text = site.guest.file(path).read_text()
    before = site.invocation()
    try:
        site.guest.put(path, text.replace("KillMode=mixed", "KillMode=process"))
        answer = site.host.call(
            "arm", op="0001-drift", kind="switch", owner=OWNER, candidate=site.candidate(), lease_s=60,
            confirm_deadline_s=60, canary=CANARY, api_port=site.guest.api_port,
        )  # fmt: skip
    finally:
        site.guest.put(path, text)
    assert (answer["ok"], answer.get("cause")) == (False, "drift"), answer
    assert site.invocation() == before


def test_k5_05_what_runs_is_read_back(site: Site) -> None:
    """A confirm is of the process that runs, never of what was asked for."""
    op = site.trial(lease_s=120)
    judged = site.guest.show("InvocationID")
    candidate = site.txn()["candidate"]
    # The release's own file now asks for something else than what was started.
    site.console("sed", "-i", "s/2048/4096/", f"/var/lib/ddtune/{UNIT}/releases/{candidate}/release.json")
    answer = site.host.call("confirm", op=op, invocation=judged)
    assert not answer["ok"]
    site.host.ok("abort", op=op)
    site.back(op, "aborted")


def test_k5_12_asked_to_end_before_it_is_killed(site: Site) -> None:
    op = site.trial(lease_s=120)
    began = time.clock_gettime(time.CLOCK_MONOTONIC)
    site.host.ok("fail", op=op, cause="slow")
    site.back(op, "slow")
    said = [text for at, text in site.journal() if at > began - 1]
    assert any(text.endswith("Draining requests and shutting down...") for text in said)
    assert not any("with signal SIGKILL" in text or "Killing process" in text for text in said)


def test_k9_04_busy_is_not_dead(site: Site) -> None:
    """An engine that answers nobody for some seconds is left alone, and one rollback is not followed by another try."""
    op = site.trial(lease_s=120)
    engine = main_process(site)
    os.kill(engine, signal.SIGSTOP)
    try:
        began = time.monotonic()
        wait_until("four seconds of silence", lambda: time.monotonic() - began > 4, 10)
    finally:
        os.kill(engine, signal.SIGCONT)
    assert site.txn()["state"] == "TRIAL"
    site.wait_ready()
    site.host.ok("fail", op=op, cause="slow")
    candidate = site.back(op, "slow")["candidate"]
    again = site.host.call(
        "arm", op="0001-again", kind="switch", owner=OWNER, candidate=candidate, lease_s=60, confirm_deadline_s=60,
        canary=CANARY, api_port=site.guest.api_port,
    )  # fmt: skip
    assert again["cause"] == "quarantined"
    assert site.runs(STABLE)


def test_k9_05_way_back_is_to_what_passed(own_site: Site) -> None:
    """B never passed and A, which did, fails too: no third release is tried, the unit is stopped, all logs are kept."""
    site = own_site
    op = site.trial(3, lease_s=120)
    site.guest.put(f"{DROP_IN}/50-broken.conf", '[Service]\nEnvironment="DDTUNE_SIM_SCENARIO=@budget>=1:bad_exit"\n')
    site.guest.console(["systemctl", "daemon-reload"])
    site.host.ok("fail", op=op, cause="garbage_output")
    txn = site.settled(op, 120)
    assert (txn["state"], txn["cause"]) == ("ROLLBACK_FAILED", "garbage_output")
    assert site.show_down()
    assert site.stable() == site.original
    assert any(line["text"].startswith("stable:") for line in txn["evidence"])
    journal = [text for _, text in site.journal()]
    assert any("mem-fraction-static" in text for text in journal)


def test_k9_06_every_rollback_leaves_its_reason(site: Site) -> None:
    op = site.host.trial(site.candidate(6, "--no-such-flag"), lease_s=120)
    txn = site.back(op, "bad_flags")
    (end,) = [line for line in site.lines() if line["op"] == op and line["event"] == "rolled_back"]
    assert end["cause"] == "bad_flags"
    assert "no-such-flag" in end["evidence"][0]["text"]
    assert end["at"] > 0
    assert end["boottime"] > 0
    assert end["owner"]["who"] == OWNER["who"]
    before, after = (site.host.ok("release", sha=end[name]["release"])["release"]["argv"] for name in ("from", "to"))
    assert "--no-such-flag" in after
    assert "--no-such-flag" not in before
    assert txn["candidate"] == end["to"]["release"]


@pytest.mark.parametrize("moment", ["stopped", "gate"])
def test_k6_03_the_operator_vanishes_in_mid_switch(site: Site, moment: str) -> None:
    """The host ends what was begun, and who comes back is told the true phase; never two halves."""
    at = reached("TRIAL", ready=True) if moment == "gate" else lambda txn: "stopped" in (txn.get("times") or {})
    process = site.start_switch("t7", "--force")
    op = site.until(process, moment, at)["op"]
    kill(process)
    seen = site.status()["txn"]
    assert seen["op"] == op
    assert seen["state"] in ("TRIAL", "ROLLED_BACK")
    site.back(op, "lease_lost")
    assert len([line for line in site.lines() if line["event"] == "armed"]) == 1


def test_k9_08_two_sessions_switch_within_a_second(site: Site, tmp_path: Path) -> None:
    """One wins, the other is told who and until when; after a kill -9 of the winner the host is free again."""
    other = Operator(site.guest, tmp_path / "other", LIMITS)
    shutil.copytree(site.operator.config.parent / "profiles", other.config.parent / "profiles")
    other.env["LOGNAME"] = "eve"
    first = site.start_switch("t7", "--force")
    op = site.until(first, "armed", lambda txn: txn.get("settled") is False)["op"]
    refused = other.run("switch", HOST, "t6", "--yes", "--json")
    assert refused.code == 7, refused
    assert refused.json["cause"] == "busy"
    said = refused.json["message"]
    assert getpass.getuser() in said
    assert op in said
    assert "decided in" in said
    kill(first)
    site.back(op, "lease_lost")
    # Nothing is left that a second operator would have to break.
    done = other.run("restart", HOST, "--yes", "--json", timeout=150)
    assert (done.code, done.json["outcome"]) == (0, "committed"), done
    site.remember()


def test_k9_09_somebodys_edit_in_mid_trial_is_theirs(own_site: Site) -> None:
    site = own_site
    edit = f"{DROP_IN}/50-mine.conf"
    op = site.trial(lease_s=120)
    text = "[Service]\nEnvironment=MINE=1\nUser=ops\n"
    site.guest.put(edit, text)
    site.guest.put("/etc/sudoers.d/ops", "ops ALL=(root) NOPASSWD: ALL\n", "440")
    site.guest.ssh(["sudo", "-n", "systemctl", "daemon-reload"], user="ops")
    site.guest.ssh(["sudo", "-n", "systemctl", "restart", UNIT], user="ops", check=False)
    txn = site.back(op, "drift")
    assert site.guest.file(edit).read_text() == text
    told = " ".join(str(entry["text"]) for entry in txn["evidence"])
    assert "ops ran as root, by sudo" in told, told
    assert UNIT in told
    assert site.guest.main_env()["MINE"] == "1", "stable runs with what the host's owner has set"


def test_k9_12_what_runs_is_said_waited_for_cut_and_counted(tmp_path: Path) -> None:
    """Slow enough that fourteen answers are on their way when they are counted, and while the service is drained."""
    with adopted(tmp_path, DDTUNE_SIM_SPEED="10") as site, Users(site.guest.api_port, 14, 120_000).asking() as users:
        wait_until("they run", lambda: site.status()["service"]["running"] == 14, 60)
        plan = site.operator.run("switch", HOST, "t7", "--dry-run", "--json").json
        assert (plan["running"], plan["queued"]) == (14, 0)
        assert (
            "14 running, 0 queued; drained for 2 s, then cut"
            in site.operator.run("switch", HOST, "t7", "--dry-run").out
        )
        assert users.cut == users.whole == 0
        code, answer = site.switch("t7", "--force", timeout=240)
        assert (code, answer["outcome"]) == (0, "committed"), answer
        assert (answer["requests_cut"], users.cut, users.whole) == (14, 14, 0)
        times = site.txn()["times"]
        # The engine counts a request as it ends, and a user has the answer a moment later.
        served = users.answered(times["ready"] - 1, times["ended"] + 1)
        assert 0 < answer["served_ungated"] <= served, (answer["served_ungated"], served)
