"""The wire between operator and host swallows, resets, or comes back too late."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.guest import wait_until
from tests.faults.conftest import watched
from tests.faults.network import Network, far_site
from tests.faults.rows import Row
from tests.faults.site import LIMITS, STABLE, Site, kill, reached

pytestmark = [pytest.mark.timeout(400), pytest.mark.slow]
STEPS = {
    "load": reached("TRIAL", trial_invocation=True, ready=False),
    "gate": reached("TRIAL", ready=True),
    "soak": reached("SOAK"),
}
NOTICED_S = 30.0


@pytest.fixture
def far(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Site, Network]]:
    limits = getattr(request, "param", {})
    with far_site(tmp_path, **limits) as (site, network), watched(site, request.node):
        yield site, network


@pytest.mark.parametrize("far", [{"lease_s": 90, "progress_s": 120, "soak_s": 3}], indirect=True)
def test_09_black_hole_at_each_step(far: tuple[Site, Network], row: Row) -> None:
    site, network = far
    process = site.start_switch()
    ops = set()
    for name, moment in STEPS.items():
        ops.add(site.until(process, name, moment)["op"])
        network.black_hole()
        began = time.monotonic()
        try:
            wait_until("the client has noticed", network.dialling, NOTICED_S + 15, every=0.05)
            noticed = time.monotonic() - began
        finally:
            network.heal()
        row.note(f"{name}: noticed after {noticed:.0f} s")
        assert noticed <= NOTICED_S, name
    out, err = process.communicate(timeout=200)
    answer = json.loads(out)
    assert (process.returncode, answer["outcome"]) == (0, "committed"), (answer, err)
    assert ops == {answer["op"]}
    assert site.runs("7")
    row.note("same op, committed")


@pytest.mark.parametrize("far", [{"lease_s": 30}], indirect=True)
def test_09_reset_in_the_gate(far: tuple[Site, Network], row: Row) -> None:
    site, network = far
    process = site.start_switch()
    op = site.until(process, "the gate runs", STEPS["gate"])["op"]
    network.reset()
    out, err = process.communicate(timeout=120)
    answer = json.loads(out)
    assert (process.returncode, answer["op"]) == (0, op), (answer, err)
    row.note("RST: same op, committed")


def test_10_back_after_the_deadline(far: tuple[Site, Network], row: Row) -> None:
    site, network = far
    process = site.start_switch()
    txn = site.until(process, "it soaks", reached("SOAK"))
    network.black_hole()
    began = time.monotonic()
    try:
        site.back(txn["op"], "lease_lost", LIMITS["lease_s"] + 60)
        row.took(time.monotonic() - began)
    finally:
        network.heal()
    out, err = process.communicate(timeout=120)
    answer = json.loads(out)
    assert (process.returncode, answer["outcome"], answer["cause"]) == (3, "rolled_back", "lease_lost"), (answer, err)
    assert site.runs(STABLE)
    row.note(f"says: {answer['outcome']} because {answer['cause']}; {answer['message']}"[:120])


def test_11_candidate_breaks_the_login(site: Site, row: Row) -> None:
    """No new login works from the soak on, while the old connection lives."""
    process = site.start_switch()
    try:
        txn = site.until(process, "it soaks", reached("SOAK"))
        site.console("systemctl", "stop", "ssh.service")
        began = time.monotonic()
        out, err = process.communicate(timeout=120)
        assert site.settled(txn["op"], 90)["state"] == "ROLLED_BACK"
        row.took(time.monotonic() - began)
        answer = json.loads(out)
        assert (process.returncode, answer["cause"]) == (3, "link_lost"), (answer, err)
    finally:
        kill(process)
        site.console("systemctl", "start", "ssh.service")
    site.back(txn["op"], "link_lost")
