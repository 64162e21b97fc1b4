"""Whose an Xid is: several processes on one GPU, two sources, and the graph canary beside the service."""

from __future__ import annotations

import pytest

from tests.unit.cases.given import READY, STARTED, Watch, eight

FAULT = "NVRM: Xid (PCI:0000:1b:00): 31, pid={pid}, name={name}, MMU Fault: ENGINE GRAPHICS"
PCI = "00000000:1B:00.0"


def watched(mark: dict[str, object] | None = None) -> Watch:
    watch = Watch().gpus(eight()).systemd(STARTED).log([READY])
    return watch.take({"t": "ddtune", "adopted": True, "canary": mark}) if mark else watch


def mark(pid: int = 41) -> dict[str, object]:
    return {"pids": [pid], "began": 990.0, "ended": 1010.0}


def nvml(watch: Watch, number: int = 31) -> Watch:
    return watch.take({"t": "xid", "number": number, "pci": PCI})


@pytest.mark.parametrize("later_s", [5.0, 200.0])
@pytest.mark.parametrize(("pid", "name"), [(41, "python3"), (9, "Xorg")])
def test_a_fault_of_ours_behind_somebody_elses_is_an_incident(pid: int, name: str, later_s: float) -> None:
    watch = watched(mark()).kernel(FAULT.format(pid=pid, name=name))
    assert not watch.shown.incidents
    watch.later(later_s).kernel(FAULT.format(pid=77, name="python3"))
    assert [(one.cause, one.gpu) for one in watch.shown.incidents] == [("xid_app", 0)]
    assert watch.shown.incidents[0].at == pytest.approx(watch.at, abs=1.0)
    assert [(event.pid, event.count) for event in watch.shown.xids or ()] == [(pid, 1), (77, 1)]


def test_a_fault_without_a_process_counts_once_the_canary_is_over() -> None:
    line = "NVRM: Xid (PCI:0000:1b:00): 13, Graphics Exception on GPC 0"
    watch = watched(mark()).kernel(line)
    assert not watch.shown.incidents, "it may be the canary's"
    watch.later(200).kernel(line)
    (incident,) = watch.shown.incidents
    assert incident.at > 1100


def test_one_process_that_faults_again_and_again_is_one_event() -> None:
    watch = watched()
    for _ in range(3):
        watch.later(1).kernel(FAULT.format(pid=77, name="python3"))
    nvml(watch)
    (event,) = watch.shown.xids or ()
    assert (event.count, event.pid, event.source) == (3, 77, "kernel")


@pytest.mark.parametrize(("pid", "name", "causes"), [(9, "Xorg", []), (77, "python3", ["xid_app"])])
def test_the_kernel_says_whose_it_is_that_nvml_told_first(pid: int, name: str, causes: list[str]) -> None:
    watch = nvml(watched())
    assert [one.cause for one in watch.shown.incidents] == ["xid_app"], "nothing else is known"
    watch.later(1).kernel(FAULT.format(pid=pid, name=name))
    (event,) = watch.shown.xids or ()
    assert (event.pid, event.process, event.count, event.source) == (pid, name, 1, "kernel")
    assert [one.cause for one in watch.shown.incidents] == causes
    watch.later(1).kernel(FAULT.format(pid=78, name="python3"))
    assert [one.cause for one in watch.shown.incidents] == ["xid_app"]


def test_the_kernel_says_how_bad_it_is_that_nvml_told_first() -> None:
    watch = nvml(watched(), 145)
    assert [one.cause for one in watch.shown.incidents] == ["xid_hardware"]
    watch.later(1).kernel("NVRM: Xid (PCI:0000:1b:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0 0x0)")
    assert [event.blames for event in watch.shown.xids or ()] == ["nobody"]
    assert not watch.shown.incidents


def test_a_gpus_own_fault_is_one_event_whoever_met_it() -> None:
    text = "NVRM: Xid (PCI:0000:1b:00): 119, pid={}, name=python3, Timeout waiting for RPC from GSP!"
    watch = watched().kernel(*(text.format(pid) for pid in (7, 8, 9)))
    (event,) = watch.shown.xids or ()
    assert event.count == 3
