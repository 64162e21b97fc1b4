"""The controller dies, sleeps or is late, at each moment of a switch."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time

import pytest

from tests.e2e.guest import wait_until
from tests.faults.rows import Row
from tests.faults.site import GOOD, LIMITS, RUN, STABLE, Site, kill, reached

pytestmark = pytest.mark.timeout(300)
LEASE_S = LIMITS["lease_s"]


@pytest.mark.slow
def test_01_killed_before_arm(site: Site, row: Row) -> None:
    before, txn = site.invocation(), site.txn()
    process = site.start_switch()
    assert process.stderr is not None
    while "baseline" not in (line := process.stderr.readline()):
        assert line, process.communicate()
    kill(process)
    wait_until("no program is left on the host", lambda: not site.programs(), 40)
    assert site.txn() == txn
    assert site.invocation() == before
    assert site.lines() == []
    site.guest.console(["flock", "--nonblock", f"{RUN}/lock", "true"])
    row.note("lock free, no program left")
    assert site.runs(STABLE)


@pytest.mark.slow
def test_02_killed_after_arm(site: Site, row: Row) -> None:
    before = site.invocation()
    process = site.start_switch()
    op = site.until(process, "armed", reached("ARMED"))["op"]
    began = kill(process)
    txn = site.back(op, "lease_lost", LEASE_S + 15)
    assert site.invocation() == before
    assert txn["times"]["ended"] == pytest.approx(txn["lease_until"], abs=1.5)
    row.note("not restarted")
    row.took(time.monotonic() - began)


@pytest.mark.slow
def test_03_killed_after_swap(site: Site, row: Row) -> None:
    process = site.start_switch()
    txn = site.until(process, "swapped", reached("TRIAL"))
    began = kill(process)
    assert "started" not in txn["times"]
    site.back(txn["op"], "lease_lost", LEASE_S + 60)
    row.took(time.monotonic() - began)


@pytest.mark.slow
def test_04_killed_in_the_load(site: Site, row: Row) -> None:
    process = site.start_switch()
    txn = site.until(process, "the candidate loads", reached("TRIAL", trial_invocation=True, ready=False))
    began = kill(process)
    site.back(txn["op"], "lease_lost", LEASE_S + 60)
    row.took(time.monotonic() - began)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [reached("TRIAL", ready=True), reached("SOAK")], ids=["gate", "soak"])
def test_05_killed_in_gate_and_soak(site: Site, row: Row, moment: object) -> None:
    process = site.start_switch()
    txn = site.until(process, "it is judged", moment)
    began = kill(process)
    site.back(txn["op"], "lease_lost", LEASE_S + 60)
    row.took(time.monotonic() - began)


@pytest.mark.slow
def test_06_killed_between_confirm_and_its_reply(site: Site, row: Row) -> None:
    """The unit's lock is held while the confirm is on its way, so that it is sent and cannot be answered."""
    process = site.start_switch()
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith("confirm"):
        assert line, process.communicate()
    with site.guest.file(f"{RUN}/lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert site.txn()["state"] == "SOAK", "the confirm was too quick to be caught"
        wait_until("the confirm has come to the host", lambda: _confirming(site), 8, every=0.02)
        began = kill(process)
    op = site.txn()["op"]
    txn = site.settled(op, LEASE_S + 60)
    row.note(f"decided {txn['state']}")
    (end,) = site.ends(op)
    committed = txn["state"] == "COMMITTED"
    assert end[0] == ("committed" if committed else "rolled_back")
    assert site.runs("7" if committed else STABLE)
    assert (site.stable() == txn["candidate"]) == committed
    said = site.status()
    assert said["service"]["profile"] == (GOOD if committed else "b8-nvls")
    row.took(time.monotonic() - began)
    if committed:
        assert site.switch("b8-nvls", "--force")[0] == 0


def _confirming(site: Site) -> bool:
    """A helper that waits beside those which renew: their requests are not in their arguments, so they are counted."""
    helpers = [pid for pid, words in site.programs().items() if words[:1] == ["helper"]]
    return len(helpers) >= 2


@pytest.mark.slow
def test_07_killed_after_commit(site: Site, row: Row) -> None:
    process = site.start_switch()

    def committed() -> bool:
        txn = site.txn()
        return txn.get("op") != site.before and txn.get("state") == "COMMITTED"

    wait_until("committed", lambda: committed() or process.poll() is not None, 90, 0.003)
    kill(process)
    txn = site.txn()
    assert txn["state"] == "COMMITTED"
    unit = f"ddtune-guard-{txn['op']}.service"
    wait_until("the guard is gone", lambda: site.guest.show("LoadState", unit) == "not-found", 20)
    assert site.ends(txn["op"]) == [("committed", None)]
    site.guest.console(["systemctl", "restart", "sglang-k26.service"])
    site.wait_ready()
    assert site.runs("7")
    assert site.stable() == txn["candidate"]
    row.note("budget 7 stays committed over a restart, guard gone")
    assert site.switch("b8-nvls", "--force")[0] == 0


@pytest.mark.slow
def test_08_asleep_in_the_soak(site: Site, row: Row) -> None:
    process = site.start_switch()
    txn = site.until(process, "soaking", reached("SOAK"))
    os.kill(process.pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        site.back(txn["op"], "lease_lost", LEASE_S + 60)
        row.took(time.monotonic() - began)
        judged = txn["trial_invocation"]
        late = site.host.call("confirm", op=txn["op"], invocation=judged)
        assert not late["ok"]
        row.note(f"late confirm refused: {late['cause']}")
    finally:
        os.kill(process.pid, signal.SIGCONT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, (out, err)
    assert json.loads(out)["cause"] == "lease_lost"
    assert site.runs(STABLE)
