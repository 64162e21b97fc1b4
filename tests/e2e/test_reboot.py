"""A reboot in mid-trial lands on stable, and a reboot after a commit on what was committed."""

from __future__ import annotations

import json

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.operator import HOST
from tests.e2e.service import Service

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("stop", ["power_cut", "power_off"])
def test_reboot_in_mid_trial_lands_on_stable(own_service: Service, stop: str) -> None:
    service = own_service
    process = service.operator.start("switch", HOST, "b16-eager", "--yes", "--json")
    try:
        wait_until(
            "the trial is ready", lambda: service.txn().get("ready") or process.poll() is not None, 60, every=0.01
        )
        assert process.poll() is None, process.communicate()
        op = service.txn()["op"]
        getattr(service.guest, stop)()
        service.guest.boot()
        service.wait_ready()
        assert service.runs("8")
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    answer = json.loads(out)
    assert (process.returncode, answer["outcome"], answer["cause"]) == (3, "rolled_back", "killed"), (answer, err)
    assert answer["stable"]["profile"] == "b8-nvls"

    ends = [line for line in service.history() if line["op"] == op and line["event"] not in {"armed", "swapped"}]
    assert [line["event"] for line in ends] == ["rolled_back"]
    assert "restart" in ends[0]["text"]
    assert service.status()["service"]["profile"] == "b8-nvls"
    assert service.status()["txn"] is None


def test_commit_outlives_a_power_cut(own_service: Service) -> None:
    code, answer = own_service.switch("b16-eager")
    assert code == 0, answer
    own_service.guest.power_cut()
    own_service.guest.boot()
    own_service.wait_ready()
    assert own_service.runs("16")
    assert own_service.status()["service"]["profile"] == "b16-eager"
