"""Faults that were seen elsewhere, on a real systemd, by the numbers of the field cases."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.onhost import CANARY, OWNER
from tests.faults.site import STABLE, UNIT, Site
from tests.faults.test_engine import main_process

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]
DROP_IN = f"/etc/systemd/system/{UNIT}.d"


def test_k5_01_start_limit_is_the_consequence_not_the_cause(own_site: Site) -> None:
    site = own_site
    site.guest.put(f"{DROP_IN}/10-limits.conf", "[Unit]\nStartLimitIntervalSec=120\nStartLimitBurst=3\n")
    site.guest.ssh(["systemctl", "daemon-reload"])
    op = site.host.trial(site.candidate(7, "--no-such-flag"), tries=5)
    txn = site.back(op, "bad_flags")
    assert txn["tries_left"] < 3, "the tries are kept below the unit's own burst"
    assert "unrecognized arguments" in txn["evidence"][0]["text"]
    assert site.guest.show("ActiveState") == "active"


def test_k5_02_restart_between_two_polls_is_a_crash(own_site: Site) -> None:
    site = own_site
    site.guest.put(f"{DROP_IN}/10-quick.conf", "[Service]\nRestartSec=20ms\n")
    site.guest.ssh(["systemctl", "daemon-reload"])
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
    site.guest.ssh(["systemctl", "daemon-reload"])
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
