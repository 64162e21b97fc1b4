"""How a start ended, and who answers for an end that nobody asked for."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ddtune.onhost import ended, releases, store
from ddtune.onhost.paths import Paths
from tests.unit.onhost_start.rig import UNIT, Rig

KILLED = {"SERVICE_RESULT": "signal", "EXIT_CODE": "killed", "EXIT_STATUS": "KILL"}


def _mark(rig: Rig) -> object:
    return (store.read_json(rig.paths.probation) or {}).get("ended")


@pytest.mark.parametrize("job", ["stop running", "restart running", "stop waiting", "start waiting"])
def test_a_job_that_ends_it_means_asked_whatever_the_status(rig: Rig, job: str) -> None:
    rig.job = job
    rig.probation()
    assert rig.run("ended", UNIT, **KILLED).returncode == 0
    record = (store.read_json(rig.paths.ended) or {})["inv1"]
    assert (record["asked"], record["result"], record["status"]) == (True, "signal", "KILL")
    assert _mark(rig) is None


@pytest.mark.parametrize("job", ["", "start running", "reload running"])
def test_an_end_without_one_marks_the_probation(rig: Rig, job: str) -> None:
    rig.job = job
    rig.probation()
    rig.run("ended", UNIT, **KILLED)
    assert _mark(rig)


def test_no_probation_no_mark(rig: Rig) -> None:
    rig.run("ended", UNIT, **KILLED)
    assert store.read_json(rig.paths.probation) is None


def test_end_under_a_transaction_is_the_guards(rig: Rig) -> None:
    rig.probation()
    rig.arm()
    rig.run("ended", UNIT, **KILLED)
    assert _mark(rig) is None


def test_hardware_fault_since_the_start_does_not_count(rig: Rig) -> None:
    rig.probation()
    rig.choose()
    line = {"MESSAGE": "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.", "_TRANSPORT": "kernel"}
    rig.kernel = json.dumps({**line, "__REALTIME_TIMESTAMP": str(int((time.time() - 1000) * 1e6))})
    rig.run("ended", UNIT, **KILLED)
    assert _mark(rig), "a fault from before this start is not its own"
    rig.probation()
    rig.kernel = json.dumps({**line, "__REALTIME_TIMESTAMP": str(int((time.time() + 1) * 1e6))})
    rig.run("ended", UNIT, **KILLED)
    assert _mark(rig) is None


def test_records_do_not_pile_up(rig: Rig) -> None:
    for serial in range(10):
        rig.run("ended", UNIT, invocation=f"inv{serial}")
    records = store.read_json(rig.paths.ended) or {}
    assert len(records) == 8
    assert "inv9" in records
    assert "inv0" not in records


def test_handler_starts_the_service_whose_probation_ended(rig: Rig) -> None:
    rig.probation()
    rig.run("ended", UNIT, **KILLED)
    assert rig.run("ended-service", UNIT).returncode == 0
    assert rig.calls[-2:] == [f"systemctl reset-failed {UNIT}", f"systemctl start --no-block {UNIT}"]


def test_handler_leaves_a_restarting_service_alone(rig: Rig) -> None:
    rig.probation()
    rig.run("ended", UNIT, **KILLED)
    rig.state = "activating"
    rig.run("ended-service", UNIT)
    assert not any(" start" in call for call in rig.calls)


def test_handler_does_nothing_after_an_asked_stop(rig: Rig) -> None:
    rig.probation()
    rig.job = "stop running"
    rig.run("ended", UNIT, **KILLED)
    before = len(rig.calls)
    rig.run("ended-service", UNIT)
    assert len(rig.calls) == before


def test_handler_never_restarts_a_crashed_stable(rig: Rig) -> None:
    rig.run("ended", UNIT, **KILLED)
    rig.run("ended-service", UNIT)
    assert not any("start" in call.split()[1:2] for call in rig.calls)


def test_handler_calls_a_dead_guard_back(rig: Rig) -> None:
    rig.arm()
    rig.run("ended", UNIT, **KILLED)
    rig.run("ended-service", UNIT)
    call = rig.calls[-1]
    assert call.startswith("systemd-run --unit=ddtune-guard-op --collect -p Type=exec -p Restart=always")
    assert call.endswith(f"guard {UNIT} op")


def test_late_crash_is_one_round_trip(rig: Rig) -> None:
    """The crash marks, the next start goes to previous, the crash of that one stays with stable."""
    rig.probation()
    rig.choose()
    rig.run("ended", UNIT, **KILLED)
    assert rig.choose("inv2")["release"] == rig.stable
    rig.run("ended", UNIT, invocation="inv2", **KILLED)
    assert rig.choose("inv3")["release"] == rig.stable
    assert [line["event"] for line in releases.history(rig.paths)] == ["late_crash"]


@pytest.mark.parametrize(
    ("txn", "invocation", "asks"),
    [
        ({"state": "TRIAL", "settled": False, "trial_invocation": "b"}, "b", True),
        ({"state": "SOAK", "settled": False, "trial_invocation": "b"}, "b", True),
        # Stable, which ddtune itself stops for the trial; and a trial that ddtune has given up.
        ({"state": "TRIAL", "settled": False, "trial_invocation": None}, "a", False),
        ({"state": "ROLLED_BACK", "settled": False, "trial_invocation": "b"}, "b", False),
        ({"state": "TRIAL", "settled": True, "trial_invocation": "b"}, "b", False),
        ({}, "", False),
    ],
)
def test_who_ended_a_trial_is_asked_only_where_it_was_not_ddtune(
    tmp_path: Path, txn: dict[str, object], invocation: str, asks: bool
) -> None:
    paths = Paths(str(tmp_path)).unit("x.service")
    paths.ensure_run()
    store.write_json(paths.txn, txn)
    assert ended.on_trial(paths, invocation) is asks
