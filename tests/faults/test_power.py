"""Reboots and power cuts at each step. Files and journal are kept, everything else is gone."""

from __future__ import annotations

import os
import time

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.onhost import RUN, STATE
from tests.faults import broken
from tests.faults.rows import Row
from tests.faults.site import STABLE, Site

pytestmark = [pytest.mark.timeout(400)]


def _armed(site: Site) -> str:
    return site.host.arm(site.candidate())


def _swapped(site: Site) -> str:
    op = _armed(site)
    site.host.ok("swap", op=op)
    return op


def _stopped(site: Site) -> str:
    op = _swapped(site)
    site.host.ok("stop", op=op)
    return op


def _loading(site: Site) -> str:
    return site.host.trial(site.candidate())


def _soaking(site: Site) -> str:
    op = site.trial()
    site.host.ok("soak", op=op)
    return op


def _going_back(site: Site) -> str:
    op = site.trial()
    site.host.ok("fail", op=op, cause="slow")
    return op


STEPS = (_armed, _swapped, _stopped, _loading, _soaking, _going_back)


def _reboot(site: Site, row: Row, cut: bool) -> None:
    began = time.monotonic()
    (site.guest.power_cut if cut else site.guest.power_off)()
    site.guest.boot()
    site.wait_ready()
    row.took(time.monotonic() - began)
    broken.install(site.guest, broken.asked())


def _dangles(site: Site) -> bool:
    """Whether a link of the state names a release that is not there whole."""
    return any(
        site.guest.console(["test", "-s", f"{STATE}/{link}/release.json"], check=False).returncode
        for link in ("stable", "previous")
        if site.guest.console(["test", "-L", f"{STATE}/{link}"], check=False).returncode == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("cut", [True, False], ids=["cut", "reboot"])
def test_17_at_each_step(own_site: Site, row: Row, cut: bool) -> None:
    site = own_site
    for step in STEPS:
        op = step(site)
        _reboot(site, row, cut)
        assert site.runs(STABLE), step.__name__
        assert site.stable() == site.original
        assert not _dangles(site)
        assert [event for event, _ in site.ends(op)] == ["rolled_back"], step.__name__
        assert site.txn() == {}
    row.note(f"{len(STEPS)} steps → stable")


def _confirm(site: Site, op: str) -> None:
    """Sends a confirm and waits for no answer."""
    judged = site.guest.show("InvocationID")
    request = f'{{"proto":1,"verb":"confirm","unit":"sglang-k26.service","op":"{op}","invocation":"{judged}"}}'
    site.guest.console(["sh", "-c", f"echo '{request}' | setsid /usr/local/libexec/ddtune-host >/dev/null 2>&1 &"])


@pytest.mark.slow
@pytest.mark.parametrize("write", ["txn.json", "previous", "probation.json", "stable", "history.jsonl"])
def test_17_between_the_writes_of_a_commit(own_site: Site, row: Row, write: str) -> None:
    """The power goes just before each durable write of a commit."""
    site = own_site
    op = _soaking(site)
    candidate = site.txn()["candidate"]
    broken.install(site.guest, ("stall", *broken.asked()))
    site.guest.put(broken.STALL, write)
    _confirm(site, op)
    wait_until(f"the write of {write} is reached", lambda: site.guest.file(f"{broken.STALL}.reached").exists(), 20)
    _reboot(site, row, cut=True)
    moved = site.stable() == candidate
    assert moved == (write == "history.jsonl"), "durable from the moved link on"
    assert site.runs("7" if moved else STABLE)
    assert not _dangles(site)
    (end,) = [event for event, _ in site.ends(op)]
    assert end == ("committed" if moved else "rolled_back")
    row.note(f"cut before {write} → {'new' if moved else 'stable'}")


@pytest.mark.slow
def test_17_in_the_soak(own_site: Site, row: Row) -> None:
    op = _soaking(own_site)
    _reboot(own_site, row, cut=True)
    assert own_site.runs(STABLE)
    assert own_site.ends(op) == [("rolled_back", "killed")]
    assert not os.path.lexists(own_site.guest.file(f"{RUN}/trial"))
