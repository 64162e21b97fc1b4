"""The guest itself: what the end-to-end tests build on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.e2e.guest import CHECKOUT, Guest, booted


def test_logs_in_as_root_and_ops(shared_guest: Guest) -> None:
    assert shared_guest.out(["id", "-un"]) == "root"
    assert shared_guest.out(["id", "-un"], user="ops") == "ops"
    assert shared_guest.out(["cat", "/proc/1/comm"]) == "systemd"


def test_passes_standard_input_and_status(shared_guest: Guest) -> None:
    assert shared_guest.ssh(["cat"], b"a\nb").stdout == b"a\nb"
    assert shared_guest.ssh(["sh", "-c", "exit 7"], check=False).returncode == 7


def test_refuses_another_host_key(shared_guest: Guest) -> None:
    good = shared_guest.known_hosts.read_text()
    other = good.split()[0] + " " + " ".join(Path(f"{shared_guest.identity}.pub").read_text().split()[:2])
    shared_guest.known_hosts.write_text(other + "\n")
    try:
        assert shared_guest.ssh(["true"], check=False).returncode == 255
    finally:
        shared_guest.known_hosts.write_text(good)


def test_service_user_can_run_this_python(shared_guest: Guest) -> None:
    argv = [sys.executable, "-c", "import ddtune, asyncssh; print(ddtune.__file__)"]
    said = shared_guest.out(["runuser", "-u", "sglang", "--", "env", f"PYTHONPATH={CHECKOUT}", *argv])
    assert said == str(CHECKOUT / "ddtune/__init__.py")


def test_reboot_keeps_files_and_changes_the_boot_id(guest: Guest) -> None:
    began = time.monotonic()
    boot_ids = [guest.out(["cat", "/proc/sys/kernel/random/boot_id"])]
    guest.put("/var/lib/kept", "x")
    guest.put("/run/lost", "x")
    for stop in (guest.power_off, guest.power_cut):
        stop()
        guest.boot()
        boot_ids.append(guest.out(["cat", "/proc/sys/kernel/random/boot_id"]))
        assert guest.out(["cat", "/var/lib/kept"]) == "x"
        assert guest.ssh(["test", "-e", "/run/lost"], check=False).returncode == 1
    assert len(set(boot_ids)) == 3
    assert {boot_id.replace("-", "") for boot_id in boot_ids} <= set(guest.out(["journalctl", "--list-boots"]).split())
    print(f"two reboots in {time.monotonic() - began:.1f} s")


def test_leaves_nothing_behind(tmp_path: Path) -> None:
    mounts = Path("/proc/self/mounts").read_text()
    with booted(tmp_path) as guest:
        init = guest.init_pid
        cgroup = guest._cgroup
        assert cgroup.is_dir()
    assert not Path(f"/proc/{init}").exists()
    assert not cgroup.exists()
    assert Path("/proc/self/mounts").read_text() == mounts


def test_dies_with_its_test_run(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, os, signal; sys.path.insert(0, sys.argv[1]); from tests.e2e.guest import Guest;"
        "g = Guest(pathlib.Path(sys.argv[2])); g.boot(); print(g.init_pid, g._cgroup, flush=True);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script, CHECKOUT, tmp_path], capture_output=True, text=True)
    init, cgroup = done.stdout.split()
    end = time.monotonic() + 10
    while Path(f"/proc/{init}").exists():
        assert time.monotonic() < end, "the guest outlived its test run"
        time.sleep(0.05)
    for folder, _, _ in os.walk(cgroup, topdown=False):
        Path(folder).rmdir()
