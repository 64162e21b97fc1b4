"""kill -9 of ddtune in mid-switch: the host goes back to stable with nobody connected."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.operator import HOST
from tests.e2e.service import LIMITS, Service

pytestmark = pytest.mark.timeout(300)
Txn = dict[str, Any]


def _armed(txn: Txn) -> bool:
    return txn.get("state") == "ARMED"


def _swapped(txn: Txn) -> bool:
    return txn.get("state") == "TRIAL"


def _starting(txn: Txn) -> bool:
    return txn.get("state") == "TRIAL" and txn.get("trial_invocation") is not None and not txn.get("ready")


def _gating(txn: Txn) -> bool:
    return txn.get("state") == "TRIAL" and bool(txn.get("ready"))


def _kill_when(service: Service, reached: Callable[[Txn], bool]) -> Txn:
    """Starts a switch and kills ddtune as soon as txn.json says so; the transaction as it was then."""
    process = service.operator.start("switch", HOST, "b16-eager", "--yes", "--json")
    try:
        wait_until(
            "the switch got there", lambda: reached(service.txn()) or process.poll() is not None, 60, every=0.003
        )
        assert process.poll() is None, process.communicate()
    finally:
        process.kill()
        process.communicate()
    return service.txn()


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(_swapped, id="after-swap", marks=pytest.mark.slow),
        pytest.param(_starting, id="during-start", marks=pytest.mark.slow),
        pytest.param(_gating, id="during-gate"),
    ],
)
def test_trial_goes_back_to_stable(service: Service, moment: Callable[[Txn], bool], numbers: dict[str, float]) -> None:
    killed = _kill_when(service, moment)
    assert killed["state"] == "TRIAL"

    wait_until("the host decided", lambda: service.txn().get("state") == "ROLLED_BACK", LIMITS["lease_s"] + 5)
    wait_until("stable serves", lambda: service.txn().get("settled") is True, 60)
    assert service.runs("8")
    _told(service, killed["op"])


def test_armed_only_restarts_nothing(service: Service) -> None:
    before = service.invocation()
    killed = _kill_when(service, _armed)
    assert killed["state"] == "ARMED"

    wait_until("the host decided", lambda: service.txn().get("settled") is True, LIMITS["lease_s"] + 10)
    assert service.txn()["state"] == "ROLLED_BACK"
    assert service.invocation() == before
    _told(service, killed["op"])


def _told(service: Service, op: str) -> None:
    """A later status and history say what happened and why."""
    status = service.status()
    assert status["service"]["profile"] == "b8-nvls"
    ends = [line for line in service.history() if line["op"] == op and line["event"] != "armed"]
    assert [(line["event"], line["cause"]) for line in ends if line["event"] != "swapped"] == [
        ("rolled_back", "lease_lost")
    ]
    assert ends[-1]["text"]


def test_ctrl_c_ends_in_stable(service: Service) -> None:
    process = service.operator.start("switch", HOST, "b16-eager", "--yes", "--json")
    wait_until("the gate runs", lambda: _gating(service.txn()), 60, every=0.01)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode in {3, 130}
    wait_until("stable serves", lambda: service.txn().get("settled") is True, LIMITS["lease_s"] + 60)
    assert service.runs("8")
