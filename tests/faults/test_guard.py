"""The guard dies, cannot start, or lives under a systemd that is reloaded all the time."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.onhost import CANARY, OWNER
from tests.faults.rows import Row
from tests.faults.site import STABLE, UNIT, Site

pytestmark = pytest.mark.timeout(240)
LEASE_S = 6.0
LATE_S = 1.5


def _guard(op: str) -> str:
    return f"ddtune-guard-{op}.service"


def _expired_in_time(site: Site, op: str, row: Row) -> None:
    """The lease ran out at the very moment that was set when it was given."""
    before = site.txn()["lease_until"]
    txn = site.back(op, "lease_lost")
    begun = txn["times"]["rollback_begun"] - txn["lease_until"]
    assert txn["lease_until"] == before
    assert -0.1 < begun < LATE_S, f"rolled back {begun:.2f} s after the deadline"
    row.note(f"rolled back {begun:.1f} s after the deadline")
    row.took(txn["times"]["serving"] - txn["times"]["rollback_begun"])


@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_12_guard_killed(site: Site, row: Row, times: int) -> None:
    lease_s = LEASE_S + 2 * times
    op = site.trial(lease_s=lease_s)
    seen: set[int] = set()

    def killed_again() -> bool:
        for pid in {pid for pid, words in site.programs().items() if words[:3] == ["guard", UNIT, op]} - seen:
            os.kill(pid, signal.SIGKILL)
            seen.add(pid)
        return len(seen) >= times

    wait_until(f"{times} guards were killed", killed_again, lease_s)
    _expired_in_time(site, op, row)
    row.note(f"killed {times}×")


def test_13_guard_masked(site: Site, row: Row) -> None:
    before, earlier = site.invocation(), site.txn()
    op = "20261129190000-masked"
    site.guest.console(["systemctl", "mask", "--runtime", _guard(op)])
    order = {"op": op, "kind": "switch", "owner": OWNER, "lease_s": 60, "confirm_deadline_s": 300, "canary": CANARY}
    answer = site.host.call("arm", candidate=site.candidate(), api_port=site.guest.api_port, **order)
    assert not answer["ok"]
    assert "guard" in answer["message"]
    row.note(f"arm refused: {answer['message']}"[:110])
    assert not site.host.call("swap", op=op)["ok"]
    assert site.txn()["op"] in (op, earlier.get("op"))
    assert site.txn()["settled"]
    assert site.invocation() == before
    assert site.runs(STABLE)


@pytest.mark.slow
def test_14_reloaded_all_the_time(site: Site, row: Row) -> None:
    op = site.trial(lease_s=2 * LEASE_S)
    guard = site.guest.show("MainPID", _guard(op))
    end = time.monotonic() + LEASE_S
    reloads = 0
    while time.monotonic() < end:
        site.guest.console(["systemctl", "daemon-reload"])
        reloads += 1
        time.sleep(2)
    site.guest.console(["systemctl", "daemon-reexec"])
    assert site.guest.show("MainPID", _guard(op)) == guard, "the same guard lives"
    _expired_in_time(site, op, row)
    row.note(f"{reloads} reloads, 1 reexec")
