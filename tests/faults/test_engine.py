"""The candidate exits, crashes, hangs, or answers wrongly."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.onhost import STATE
from tests.faults.rows import Row
from tests.faults.site import STABLE, UNIT, Site, reached

pytestmark = pytest.mark.timeout(300)


def members(site: Site) -> dict[int, list[str]]:
    """The service's processes as this machine numbers them, and their arguments."""
    found = {}
    path = site.guest._cgroup / f"system.slice/{UNIT}/cgroup.procs"
    for pid in path.read_text().split() if path.exists() else ():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        found[int(pid)] = words
    return found


def main_process(site: Site) -> int:
    """The engine itself, as this machine numbers it."""
    return wait_until(
        "the engine runs", lambda: next((pid for pid, argv in members(site).items() if "-m" in argv[:3]), 0), 20, 0.02
    )


def rank(site: Site, number: int) -> int:
    """One scheduler process, as this machine numbers it."""
    name = f"sglang::scheduler_TP{number}"
    return next(pid for pid, argv in members(site).items() if argv[0] == name)


def no_orphans(site: Site, before: set[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in before)


def quarantined(site: Site, candidate: str) -> bool:
    return bool(site.host.file(f"{STATE}/quarantine/{candidate}.json"))


def ask(site: Site) -> socket.socket:
    """A request on its way; the connection is the caller's to keep open."""
    body = b'{"text": "Tell a story.", "sampling_params": {"max_new_tokens": 64}}'
    head = (
        f"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    api = socket.create_connection(("127.0.0.1", site.guest.api_port), 5)
    api.sendall(head.encode() + body)
    return api


@pytest.mark.slow
def test_21_exits_at_once(site: Site, row: Row) -> None:
    began = time.monotonic()
    op = site.host.trial(site.candidate(7, "--no-such-flag"), start_deadline_s=120, lease_s=120)
    txn = site.back(op, "bad_flags")
    assert time.monotonic() - began < 40
    assert "no-such-flag" in txn["evidence"][0]["text"]
    row.note(f"after {txn['times']['rollback_begun'] - txn['times']['started']:.1f} s")
    row.took(txn["times"]["serving"] - txn["times"]["rollback_begun"])


@pytest.mark.slow
def test_22_crashes_late_in_the_soak(site: Site, row: Row) -> None:
    op = site.trial(lease_s=120)
    site.host.ok("soak", op=op)
    before = site.invocation()
    os.kill(main_process(site), signal.SIGKILL)
    died = time.clock_gettime(time.CLOCK_BOOTTIME)
    txn = site.back(op, "engine_dead")
    assert site.invocation() != before
    assert txn["times"]["rollback_begun"] - died < 5
    row.note(f"noticed after {txn['times']['rollback_begun'] - died:.1f} s")
    row.took(txn["times"]["serving"] - died)


@pytest.mark.slow
def test_23_hangs_in_the_load(site: Site, row: Row) -> None:
    op = site.host.trial(site.candidate(), start_deadline_s=4, lease_s=120, stop_timeout_s=5)
    engine = main_process(site)
    os.kill(engine, signal.SIGSTOP)
    txn = site.back(op, "start_hang")
    late = txn["times"]["rollback_begun"] - txn["start_deadline"]
    assert late < 1.5
    assert not Path(f"/proc/{engine}").exists()
    row.note(f"begun {late:.1f} s after the start deadline")
    row.took(txn["times"]["serving"] - txn["times"]["rollback_begun"])


@pytest.mark.slow
def test_24_start_limit(own_site: Site, row: Row) -> None:
    site = own_site
    limits = "[Unit]\nStartLimitIntervalSec=600\nStartLimitBurst=3\n"
    site.guest.put(f"/etc/systemd/system/{UNIT}.d/10-limits.conf", limits)
    site.guest.console(["systemctl", "daemon-reload"])
    for _ in range(3):
        site.guest.console(["systemctl", "restart", UNIT], check=False)
    wait_until("it serves", lambda: site.guest.ready() or site.show_down(), 30)
    if site.show_down():
        site.guest.console(["systemctl", "reset-failed", UNIT])
        site.guest.console(["systemctl", "start", UNIT])
    site.wait_ready()
    site.host.ok("accept")
    op = site.trial()
    site.host.ok("abort", op=op)
    site.back(op, "aborted")
    row.note("limit used up before: trial and rollback start")

    op = site.host.trial(site.candidate(7, "--no-such-flag"), tries=2)
    txn = site.back(op, "bad_flags")
    row.note(f"crash loop of the candidate: cause {txn['cause']}")
    row.took(txn["times"]["serving"] - txn["times"]["rollback_begun"])


@pytest.mark.slow
@pytest.mark.sim
def test_25_hangs_after_120_requests(site: Site, row: Row) -> None:
    with site.limits(soak_requests=200):
        _judged(site, row, "t2", {"hang", "watchdog_timeout", "gate_inconclusive", "engine_dead"})


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("profile", ["t3", "t4", "t5"])
def test_26_wrong_answers(site: Site, row: Row, profile: str) -> None:
    _judged(site, row, profile, {"garbage_output", "wrong_output", "accept_collapse"})


@pytest.mark.slow
@pytest.mark.sim
def test_27_no_draft_is_accepted(site: Site, row: Row) -> None:
    _judged(site, row, "t6", {"accept_collapse"})


def _judged(site: Site, row: Row, profile: str, causes: set[str]) -> None:
    """A whole switch whose candidate is found out by the gate."""
    code, answer = site.switch(profile, "--force", timeout=200)
    assert (code, answer["outcome"]) == (3, "rolled_back"), answer
    assert answer["cause"] in causes, answer
    assert answer["evidence"]
    assert site.runs(STABLE)
    assert site.stable() == site.original
    bad = [f"{name}: {check['verdict']}" for name, check in answer["gate"].items() if check["verdict"] != "pass"]
    row.note(f"{profile} {answer['cause']} ({', '.join(bad) or 'no verdict'})")
    times = site.txn()["times"]
    row.took(times["serving"] - times["rollback_begun"])


@pytest.mark.slow
def test_29_gate_cannot_be_measured(site: Site, row: Row) -> None:
    """The candidate's command line cannot be read, so that nobody knows what was judged."""
    process = site.start_switch()
    txn = site.until(process, "the candidate starts", reached("TRIAL", trial_invocation=True))
    pid = wait_until("it has a main process", lambda: int(site.guest.show("MainPID")), 20)
    site.console("mount", "--bind", "/dev/null", f"/proc/{pid}/cmdline")
    try:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 3, (out, err)
    finally:
        site.console("umount", "-l", f"/proc/{pid}/cmdline", check=False)
    txn = site.back(txn["op"], "gate_inconclusive")
    assert not quarantined(site, txn["candidate"])
    row.note("gate_inconclusive, not quarantined")
    row.took(txn["times"]["serving"] - txn["times"]["rollback_begun"])


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hangs"])
def test_30_one_rank(site: Site, row: Row, how: signal.Signals) -> None:
    """A rank that is killed as the OOM killer does it, or that stands still in a collective while others wait."""
    op = site.trial(lease_s=120)
    processes = set(members(site))
    os.kill(rank(site, 3), how)
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    asked = []
    if how is signal.SIGSTOP:
        # Only a request meets a rank that stands still.
        asked.append(ask(site))
    txn = site.back(op, ("engine_dead", "watchdog_timeout"), 90)
    assert no_orphans(site, processes)
    row.note(f"{how.name} of TP3: {txn['cause']}, no process of it left")
    row.took(txn["times"]["serving"] - began)
