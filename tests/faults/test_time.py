"""Clocks that jump, hosts that sleep, and the race between the last moment and the deadline."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.e2e.guest import CHECKOUT, wait_until
from tests.faults import broken
from tests.faults.rows import Row
from tests.faults.site import Site

pytestmark = pytest.mark.timeout(240)
DAY_S = 86400.0
LATE_S = 2.0
RACES = 10_000


@pytest.mark.slow
@pytest.mark.injected
def test_15_wall_clock_jumps(own_site: Site, row: Row) -> None:
    site = own_site
    broken.install(site.guest, ("clock", *broken.asked()))
    for jump in (DAY_S, -DAY_S):
        op = site.trial(lease_s=5)
        site.guest.put(broken.CLOCK, json.dumps({"wall": jump}))
        txn = site.back(op, "lease_lost")
        begun = txn["times"]["rollback_begun"] - txn["lease_until"]
        assert -0.1 < begun < LATE_S
        end = next(line for line in site.lines() if line["op"] == op and line["event"] == "rolled_back")
        assert end["at"] - time.time() == pytest.approx(jump, abs=60)
        assert end["boottime"] == pytest.approx(txn["times"]["ended"], abs=2)
        row.note(f"{jump / DAY_S:+.0f} day: {begun:.1f} s after the deadline")
        row.took(txn["times"]["serving"] - txn["times"]["rollback_begun"])
        site.guest.put(broken.CLOCK, "{}")


@pytest.mark.slow
@pytest.mark.injected
def test_16_host_sleeps(own_site: Site, row: Row) -> None:
    """The freezer stops every process of the guest, its systemd too, while CLOCK_BOOTTIME goes on."""
    site = own_site
    op = site.trial(lease_s=5)
    frozen = Path(site.guest._cgroup, "cgroup.freeze")
    frozen.write_text("1")
    try:
        until = site.txn()["lease_until"]
        wait_until("it has slept past its lease", lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > until + 3, 20)
        assert site.txn()["state"] == "TRIAL"
    finally:
        frozen.write_text("0")
    woken = time.clock_gettime(time.CLOCK_BOOTTIME)
    txn = site.back(op, "lease_lost")
    begun = txn["times"]["rollback_begun"] - woken
    assert begun < LATE_S
    row.note(f"rolled back {begun:.1f} s after it woke")
    row.took(txn["times"]["serving"] - woken)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_41_confirm_races_expiry(row: Row, tmp_path: Path) -> None:
    """On the on-host programs of this run, broken ones too, in the place of the checkout's."""
    with zipfile.ZipFile(io.BytesIO(broken.pyz(broken.asked()))) as programs:
        programs.extractall(tmp_path)
    command = [sys.executable, "-P", "-m", "tests.unit.onhost_races.races", str(RACES)]
    env = os.environ | {"PYTHONPATH": f"{tmp_path}:{CHECKOUT}"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=1100, check=False)
    assert done.returncode == 0, done.stderr
    said = {"committed": 0, "rolled_back": 0, "split": 0, **json.loads(done.stdout)}
    row.note(f"{said['committed']} committed, {said['rolled_back']} rolled back, {said['split']} split")
    assert said["split"] == 0
    assert said["committed"] + said["rolled_back"] == RACES
    assert min(said["committed"], said["rolled_back"]) > RACES / 20, "both outcomes must happen for it to be a race"
