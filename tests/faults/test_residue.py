"""What a dead candidate leaves behind, hardware that gives up, and a stable that does not come back."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.onhost import STATE
from tests.faults.rows import Row
from tests.faults.site import STABLE, UNIT, Site
from tests.faults.test_engine import main_process, members, quarantined
from tests.faults.tracer import held

pytestmark = pytest.mark.timeout(300)
CGROUP = f"/sys/fs/cgroup/system.slice/{UNIT}/cgroup.procs"
# Waits until the port is free and then keeps it.
SQUATTER = """
import socket, sys, time
while True:
    try:
        held = socket.create_server(("127.0.0.1", int(sys.argv[1])))
        break
    except OSError:
        time.sleep(0.02)
time.sleep(300)
"""
KMSG = "/run/ddtune-test-kmsg"
JOURNALCTL = f"""#!/bin/sh
# Kernel lines come from a file of the test's, new ones only; all else is the real journal.
case " $* " in
  *" -k "*" -f "*) exec tail -n 0 -F {KMSG} 2>/dev/null ;;
  *" -k "*) exit 0 ;;
esac
exec /usr/bin/journalctl "$@"
"""
INSTALL = "/usr/local/lib/ddtune/1/install.json"


def squat(site: Site, within_unit: bool) -> int:
    """A process that will take the API's port as soon as it is free, out of the unit's cgroup; its pid in the guest."""
    join = f"echo $$ >{CGROUP};" if within_unit else ""
    into = "mkdir -p /sys/fs/cgroup/elsewhere; "
    script = f'{into}{join} setsid /usr/bin/python3 -c "$1" {site.guest.api_port} >/dev/null 2>&1 </dev/null & echo $!'
    return int(site.guest.console(["sh", "-c", script, "sh", SQUATTER]).stdout)


def _lives(site: Site, pid: int) -> bool:
    return site.guest.console(["test", "-d", f"/proc/{pid}"], check=False).returncode == 0


def test_31_orphan_of_the_candidate(site: Site, row: Row) -> None:
    """It began in the unit, left its cgroup and takes the port when the engine dies."""
    op = site.trial(lease_s=120)
    pid = squat(site, within_unit=True)
    seen = f"/run/ddtune/{UNIT}/processes.json"
    wait_until("the guard has seen it", lambda: str(pid) in site.host.file(seen).get("pids", {}), 10)
    site.guest.console(["sh", "-c", f"echo {pid} >/sys/fs/cgroup/elsewhere/cgroup.procs"])
    shm = "/dev/shm/leaked"
    site.guest.console(["runuser", "-u", "sglang", "--", "sh", "-c", f"head -c 1000000 /dev/zero >{shm}"])
    os.kill(main_process(site), signal.SIGKILL)
    died = time.clock_gettime(time.CLOCK_BOOTTIME)
    txn = site.settled(op, 90)
    assert txn["state"] == "ROLLED_BACK", (txn["cause"], txn["evidence"])
    assert not _lives(site, pid)
    assert site.runs(STABLE)
    row.note("orphan on the port ended by pid")
    row.took(txn["times"]["serving"] - died)


@pytest.mark.slow
def test_31_somebody_elses_process(site: Site, row: Row) -> None:
    op = site.trial(lease_s=120)
    pid = squat(site, within_unit=False)
    site.host.ok("fail", op=op, cause="slow")
    txn = site.settled(op, 90)
    assert (txn["state"], txn["cause"]) == ("HOST_ACTION_REQUIRED", "port_in_use"), txn
    assert f"pid {pid}" in txn["action"]
    assert _lives(site, pid), "it is not ours to end"
    assert site.show_down()
    assert not quarantined(site, txn["candidate"])
    row.note(f"foreign: {txn['action']}"[:130])
    _said_first(site, "HOST_ACTION_REQUIRED")
    site.guest.console(["kill", str(pid)])
    site.guest.console(["systemctl", "start", UNIT])
    site.wait_ready()
    assert site.runs(STABLE)


def _said_first(site: Site, state: str) -> None:
    """The first line of the next status says it."""
    text = site.operator.run("status", "b300").out
    assert state in text.splitlines()[0], text
    assert site.status()["txn"]["state"] == state


@pytest.mark.slow
@pytest.mark.injected
def test_32_process_survives_sigkill(own_site: Site, row: Row) -> None:
    site = own_site
    op = site.trial(lease_s=200)
    victim = next(pid for pid, argv in members(site).items() if argv[0].endswith("TP5"))
    with held(victim):
        site.host.ok("fail", op=op, cause="slow")
        txn = site.settled(op, 150)
        starts = [text for _, text in site.journal() if text.startswith("Started ")]
        assert (txn["state"], txn["cause"]) == ("HOST_ACTION_REQUIRED", "residue"), txn
        assert "cannot be ended: restart the host" in txn["action"]
        assert Path(f"/proc/{victim}").exists()
        assert not quarantined(site, txn["candidate"])
        row.note(txn["action"])
        _said_first(site, "HOST_ACTION_REQUIRED")
        assert len(starts) == len([text for _, text in site.journal() if text.startswith("Started ")])
        assert site.show_down()


def _kernel(site: Site, text: str) -> None:
    """One line of the kernel's log, once the guard follows it."""
    wait_until("the guard follows the kernel", lambda: any(KMSG in argv for _, argv in site.processes()), 10)
    entry = {"MESSAGE": text, "__REALTIME_TIMESTAMP": str(int(time.time() * 1e6)), "_TRANSPORT": "kernel"}
    site.guest.console(["sh", "-c", f"cat >>{KMSG}"], json.dumps(entry).encode() + b"\n")


XIDS = {
    79: ("gpu_lost", "GPU has fallen off the bus."),
    119: ("xid_hardware", "Timeout after 6s of waiting for RPC response from GPU1 GSP!"),
    95: ("xid_hardware", "Uncontained ECC error"),
    154: ("xid_hardware", "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"),
}


@pytest.mark.slow
@pytest.mark.injected
def test_33_xid_in_the_soak(own_site: Site, row: Row) -> None:
    site = own_site
    site.guest.put("/usr/local/bin/journalctl-test", JOURNALCTL, "755")
    site.guest.put(KMSG, "")
    site.guest.console(["sed", "-i", "s#/usr/bin/journalctl#/usr/local/bin/journalctl-test#", INSTALL])

    op = _soaking(site)
    _kernel(site, "NVRM: Xid (PCI:0000:1b:00): 45, pid=1234, name=python3, Ch 00000008")
    _kernel(site, "FAULTS: seen")
    site.host.ok("renew", op=op)
    assert site.txn()["state"] == "SOAK", "Xid 45 is what an ended process leaves"
    row.note("45 ignored")
    for number, (cause, text) in XIDS.items():
        assert site.txn()["state"] == "SOAK"
        _kernel(site, f"NVRM: Xid (PCI:0000:1b:00): {number}, {text}")
        began = time.monotonic()
        txn = site.settled(op, 90)
        assert (txn["state"], txn["cause"]) == ("HOST_ACTION_REQUIRED", cause), (number, txn)
        assert "0000:1b:00" in txn["action"]
        assert not quarantined(site, txn["candidate"])
        assert site.stable() == site.original
        row.note(f"{number}: {cause}")
        row.took(time.monotonic() - began)
        _said_first(site, "HOST_ACTION_REQUIRED")
        if site.show_down():
            site.guest.console(["systemctl", "reset-failed", UNIT], check=False)
            site.guest.console(["systemctl", "start", UNIT])
        site.wait_ready()
        op = _soaking(site)
    site.host.ok("abort", op=op)
    site.back(op, "aborted")


def _soaking(site: Site) -> str:
    op = site.trial(lease_s=200)
    site.host.ok("soak", op=op)
    return op


@pytest.mark.slow
def test_34_stable_fails_after_the_rollback(own_site: Site, row: Row) -> None:
    site = own_site
    op = site.trial(lease_s=200)
    broken = f"/etc/systemd/system/{UNIT}.d/50-broken.conf"
    site.guest.put(broken, '[Service]\nEnvironment="DDTUNE_SIM_SCENARIO=@budget==8:bad_exit"\n')
    site.guest.console(["systemctl", "daemon-reload"])
    before = len([text for _, text in site.journal() if text.startswith("Started ")])
    site.host.ok("fail", op=op, cause="slow")
    txn = site.settled(op, 120)
    assert (txn["state"], txn["cause"]) == ("ROLLBACK_FAILED", "slow"), txn
    assert site.show_down()
    starts = len([text for _, text in site.journal() if text.startswith("Started ")]) - before
    assert 1 <= starts <= 4
    assert site.stable() == site.original
    assert [event for event, _ in site.ends(op)] == ["rollback_failed"]
    crit = site.guest.out(["journalctl", "--no-pager", "-b", "-p", "crit", "-o", "cat"])
    assert "a person must act" in crit
    _said_first(site, "ROLLBACK_FAILED")
    row.note(f"ROLLBACK_FAILED after {starts} starts of stable, stopped, said at crit and first by status")
    assert os.path.basename(os.readlink(site.guest.file(f"{STATE}/stable"))) == site.original
    site.guest.console(["rm", broken])
    site.guest.console(["systemctl", "daemon-reload"])
    site.guest.console(["systemctl", "reset-failed", UNIT])
    site.guest.console(["systemctl", "start", UNIT])
    site.wait_ready()
    assert site.runs(STABLE)
