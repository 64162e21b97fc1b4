"""Full, read-only and damaged files of the host; small file systems are mounted over the folders of ddtune."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.onhost import CANARY, OWNER, RUN, STATE
from tests.faults.rows import Row
from tests.faults.site import STABLE, UNIT, Site

pytestmark = pytest.mark.timeout(300)
VAR, VOLATILE = "/var/lib/ddtune", "/run/ddtune"


@contextlib.contextmanager
def small(site: Site, folder: str, options: str = "size=4m,mode=755") -> Iterator[None]:
    """``folder`` on a small file system of its own, with what it held; put back at the end."""
    copy = (
        'set -e; d=$(mktemp -d); cp -a "$0/." "$d"; mount -t tmpfs -o "$1" tmpfs "$0"; cp -a "$d/." "$0"; rm -rf "$d"'
    )
    back = (
        'set -e; d=$(mktemp -d); rm -f "$0/filler" "$0"/inode.*; mount -o remount,rw "$0"; cp -a "$0/." "$d";'
        ' umount -l "$0"; rm -rf "$0"/*; cp -a "$d/." "$0"; rm -rf "$d"'
    )
    site.console("sh", "-c", copy, folder, options)
    try:
        yield
    finally:
        site.console("sh", "-c", back, folder)


def fill(site: Site, folder: str) -> None:
    """Until not a byte more can be written."""
    site.console("sh", "-c", 'cat /dev/zero >"$0/filler" 2>/dev/null; sync', folder, check=False)


def fill_inodes(site: Site, folder: str) -> None:
    """Until not a file more can be made."""
    site.console("sh", "-c", 'n=0; while : >"$0/inode.$n"; do n=$((n+1)); done 2>/dev/null', folder, check=False)


def empty(site: Site, folder: str) -> None:
    site.console("sh", "-c", 'rm -f "$0/filler" "$0"/inode.*', folder)


def refused(site: Site, candidate: str, causes: tuple[str, ...]) -> str:
    """Nothing begins: the answer's cause."""
    before = site.invocation()
    answer = site.host.call(
        "arm", op="20261129190000-full", kind="switch", owner=OWNER, candidate=candidate, lease_s=60,
        confirm_deadline_s=300, canary=CANARY, api_port=site.guest.api_port,
    )  # fmt: skip
    assert not answer["ok"], answer
    assert answer["cause"] in causes, answer
    assert not site.txn() or site.txn()["settled"]
    assert site.invocation() == before
    assert site.runs(STABLE)
    return str(answer["cause"])


def test_18_var_full(site: Site, row: Row) -> None:
    candidate = site.candidate()
    with small(site, VAR):
        fill(site, VAR)
        base = site.host.ok("base")
        release = {
            "argv": [*base["argv"], "--seed", "1"],
            "cwd": base["cwd"],
            "env_set": {},
            "env_unset": [],
            "schema": 1,
        }
        put = site.host.call("put_release", release=release, meta={"profile": "full"})
        assert put["cause"] == "disk_full", put
        row.note(f"put and arm refused: {refused(site, candidate, ('disk_full',))}")

        empty(site, VAR)
        op = site.trial()
        fill(site, VAR)
        confirm = site.host.call("confirm", op=op, invocation=site.guest.show("InvocationID"))
        assert confirm["cause"] == "disk_full", confirm
        assert site.stable() == site.original
        began = time.monotonic()
        site.host.ok("fail", op=op, cause="disk_full")
        txn = site.settled(op)
        assert txn["state"] == "ROLLED_BACK", txn
        assert site.runs(STABLE)
        assert site.stable() == site.original
        row.note("confirm refused, rolled back with 0 bytes left")
        row.took(time.monotonic() - began)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["bytes", "inodes", "read-only"])
def test_19_run_unusable_before(site: Site, row: Row, how: str) -> None:
    candidate = site.candidate()
    with small(site, VOLATILE, "size=2m,nr_inodes=200,mode=755"):
        _spoil(site, how)
        row.note(f"{how}: {refused(site, candidate, ('disk_full', 'read_only'))}")
        if how == "read-only":
            site.console("umount", "-l", VOLATILE)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["bytes", "inodes", "read-only"])
def test_19_run_unusable_in_the_trial(site: Site, row: Row, how: str) -> None:
    with small(site, VOLATILE, "size=2m,nr_inodes=200,mode=755"):
        op = site.trial(lease_s=5)
        _spoil(site, how)
        began = time.monotonic()
        wait_until("stable serves", lambda: site.runs(STABLE), 60, every=0.5)
        row.took(time.monotonic() - began)
        row.note(f"{how} in the trial: stable")
        if how == "read-only":
            site.console("umount", "-l", VOLATILE)
        empty(site, VOLATILE)
        txn = site.settled(op)
        assert txn["state"] == "ROLLED_BACK", txn
        assert site.runs(STABLE)


def _spoil(site: Site, how: str) -> None:
    if how == "bytes":
        fill(site, VOLATILE)
    elif how == "inodes":
        fill_inodes(site, VOLATILE)
    else:
        # A file system with files open for writing cannot be made read-only, but what is mounted over it can.
        site.console("mount", "--bind", VOLATILE, VOLATILE)
        site.console("mount", "-o", "remount,bind,ro", VOLATILE)


@pytest.mark.slow
def test_19_var_read_only(site: Site, row: Row) -> None:
    candidate = site.candidate()
    with small(site, VAR):
        site.console("mount", "-o", "remount,ro", VAR)
        row.note(f"/var read-only: {refused(site, candidate, ('disk_full', 'read_only'))}")
        site.console("mount", "-o", "remount,rw", VAR)
        op = site.trial(lease_s=5)
        site.console("mount", "-o", "remount,ro", VAR)
        txn = site.settled(op)
        assert (txn["state"], txn["cause"]) == ("ROLLED_BACK", "lease_lost")
        assert site.runs(STABLE)
        assert site.stable() == site.original


@pytest.mark.slow
def test_20_damaged_txn(site: Site, row: Row) -> None:
    op = site.trial()
    began = time.monotonic()
    site.console("sh", "-c", f"head -c 40 {RUN}/txn.json >{RUN}/cut && mv {RUN}/cut {RUN}/txn.json")
    wait_until("the guard has put it back", lambda: site.txn().get("op") == op, 10)
    site.back(op, "unknown")
    row.note("truncated txn: rolled back")
    row.took(time.monotonic() - began)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["dangling", "hash", "gone"])
def test_20_damaged_stable(own_site: Site, row: Row, damage: str) -> None:
    """Stable cannot be read: the newest release that passed a gate is started, and somebody is told."""
    site = own_site
    assert site.switch("t7")[0] == 0
    spoiled = site.stable()
    assert spoiled != site.original
    commands = {
        "dangling": f"rm -rf {STATE}/releases/{spoiled}",
        "hash": f"sed -i s/2048/4096/ {STATE}/releases/{spoiled}/release.json",
        "gone": f"rm {STATE}/stable",
    }
    site.console("sh", "-c", commands[damage])
    began = time.monotonic()
    site.guest.console(["systemctl", "restart", UNIT])
    site.wait_ready()
    row.took(time.monotonic() - began)
    assert site.budget() == STABLE
    crit = site.guest.out(["journalctl", "--no-pager", "-b", "-p", "crit", "-o", "cat"])
    assert "the service starts on" in crit
    row.note(f"{damage}: budget {site.budget()} and an alarm")
