"""A reboot in mid-trial lands on stable, and a reboot after a commit on what was committed; one after the other."""

from __future__ import annotations

import json

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.operator import HOST
from tests.e2e.service import Service

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("stop", ["power_cut", pytest.param("power_off", marks=pytest.mark.slow)])
def test_reboot_in_mid_trial_lands_on_stable(service: Service, stop: str) -> None:
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
    status = service.status()
    assert status["service"]["profile"] == "b8-nvls"
    assert status["txn"] is None


def test_commit_outlives_a_power_cut(service: Service) -> None:
    code, answer = service.switch("b16-eager")
    assert code == 0, answer
    service.guest.power_cut()
    service.guest.boot()
    service.wait_ready()
    assert service.runs("16")
    assert service.status()["service"]["profile"] == "b16-eager"
