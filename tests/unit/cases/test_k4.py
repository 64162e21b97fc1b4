"""GPUs, NVML and Xids (kind K4 of the field cases): what comes in, and what is shown."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import pytest

from ddtune.live.status import status_json
from ddtune.onhost import collect_gpu, collect_smi
from ddtune.onhost.collect_gpu import Gpus
from tests.unit.cases.given import READY, STARTED, Given, Watch, eight

LIMIT_S = 15.0
_VALUES = {
    "uuid": "GPU-{index}",
    "pci.bus_id": "00000000:{bus}:00.0",
    "name": "NVIDIA B300 SXM6 AC",
    "power.draw": "40{index}.50",
    "memory.used": "275040",
    "mig.mode.current": "Disabled",
    "gpu_recovery_action": "None",
}


def smi(folder: Path, body: str) -> None:
    """An ``nvidia-smi`` without GPM in front of the search path; ``$fields`` holds the fields that were asked for."""
    program = folder / "nvidia-smi"
    start = '#!/bin/bash\n[[ $1 != dmon ]] || exit 1\nfields=$(sed -e "s/.*--query-gpu=//" -e "s/ .*//" <<< "$*")\n'
    program.write_text(f"{start}echo x >> {folder}/started\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def row(index: int, bus: int, **changed: str) -> str:
    values = {name: value.format(index=index, bus=f"{bus:02X}") for name, value in _VALUES.items()}
    values |= {"index": str(index)} | changed
    return ", ".join(values.get(names[0], "1") for names in collect_smi.FIELDS.values())


@pytest.fixture
def no_nvml(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    def absent() -> None:
        raise OSError("no libnvidia-ml")

    monkeypatch.setattr(collect_gpu, "Nvml", absent)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def test_k4_01(given: Given, no_nvml: Path) -> None:
    """A query that hangs stays the only one; readings grow old and say so; Xid 119 is shown."""
    bus, rows = 0x61, "\n".join(f"echo '{row(index, 0x5D + index)}'" for index in range(8))
    smi(no_nvml, f"{rows}\ntrap '' TERM\nexec -a nvidia-smi sleep 600")
    gpus = Gpus(0.1)
    lines = [gpus.line()]
    threading.Thread(target=lambda: lines.append(gpus.line()), daemon=True).start()
    watch = Watch().take(lines[0]).unit()
    for _ in range(given.number(45, 40, 60)):
        watch.later(1).unit().ready()
    time.sleep(0.3)
    assert (no_nvml / "started").read_text() == "x\n"
    assert len(lines) == 1
    gpus._source._process.kill()  # type: ignore[union-attr]  # the stand-in, which no driver holds
    age = watch.shown.ages.gpus
    assert age is not None
    assert any(
        f"nvidia-smi does not answer: the GPU readings are {age:.0f} s old" in a.text for a in watch.shown.alarms
    )
    assert watch.shown.ages.unit == 0
    assert not any(gpu.lost for gpu in watch.shown.gpus)
    pid = given.number(1346198)
    watch.kernel(
        f"NVRM: Xid (PCI:0000:{bus:x}:00): 119, pid={pid}, name=nvidia-smi, Timeout waiting for RPC from GSP! "
        "Expected function 76 (GSP_RM_CONTROL) (0x2080014b 0x5)."
    )
    assert watch.shown.xids is not None
    (event,) = watch.shown.xids
    assert (event.number, event.process, event.blames) == (119, "nvidia-smi", "hardware")
    assert [(one.cause, one.gpu) for one in watch.shown.incidents] == [("xid_hardware", 4)]


def test_k4_03(given: Given, no_nvml: Path) -> None:
    """A lost GPU keeps its place: its neighbours are not renumbered, and a restart is advised against."""
    lost = given.rank(5)
    first = 0x1B
    whole = Watch().gpus(eight(first))
    complaint = f"Unable to determine the device handle for GPU0000:{first + lost:02X}:00.0: Unknown Error"
    left = [one for one in range(8) if one != lost]
    rows = "\n".join(f"echo '{row(place, first + one, uuid=f'GPU-{one}')}'" for place, one in enumerate(left))
    smi(no_nvml, f"echo '{complaint}' >&2\n{rows}\nsleep 600")
    gpus = Gpus(0.1)
    line = gpus.line()
    gpus.end()
    for watch in (whole.take(line), Watch().take(line)):
        shown = watch.shown.gpus
        assert [gpu.index for gpu in shown] == list(range(8))
        assert [gpu.index for gpu in shown if gpu.lost] == [lost]
        assert [gpu.power_w for gpu in shown if not gpu.lost] == [float(f"40{place}.50") for place in range(7)]
        assert all(int(gpu.pci.split(":")[1], 16) == first + gpu.index for gpu in shown)
        (alarm,) = watch.shown.alarms
        assert alarm.blocks
        assert f"7 of 8 GPUs answer: GPU {lost}" in alarm.text
    smi(no_nvml, f"echo '{complaint}'; exit 15")
    gone = Gpus(0.1)
    none = Watch().gpus(eight(first)).take(gone.line())
    assert [gpu.index for gpu in none.shown.gpus] == list(range(8))


def test_k4_04(given: Given) -> None:
    """Off the bus, without a number and over three lines: one event, one incident."""
    bus = 0x1B + given.rank(2)
    watch = Watch().gpus(eight()).systemd(STARTED).log([READY])
    watch.kernel(
        f"NVRM: The NVIDIA GPU 0000:{bus:02x}:00.0",
        f"NVRM: (PCI ID: 10de:{given.number(2665):04d}) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
        f"NVRM: Xid (PCI:0000:{bus:02x}:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    )
    (event,) = watch.shown.xids or ()
    assert (event.number, event.count, event.pci) == (79, 1, f"0000:{bus:02x}:00")
    (incident,) = watch.shown.incidents
    assert (incident.cause, incident.gpu, incident.action) == ("gpu_lost", bus - 0x1B, "restart the host")


def test_k4_06(given: Given) -> None:
    """NVLink 5: nonfatal is a note, fatal is the hardware; other PCI domains, no pid and no name."""
    pci, link = given.pci("0018:01:00"), given.number(13, 0, 17)
    address = pci if len(pci) == 10 else pci.split(":", 1)[0][-4:] + ":" + pci.split(":", 1)[1]
    slots = [{"index": 0, "uuid": "GPU-0", "pci": f"{pci.upper()}.0", "name": "B300"}]
    watch = Watch().gpus(slots).systemd(STARTED).log([READY])
    watch.kernel(f"NVRM: Xid (PCI:{pci}): 145, RLW_RXPIPE Nonfatal XC0 i0 Link {link} (0x0409a0c2 0x0)")
    assert not watch.shown.incidents
    watch.kernel(f"NVRM: Xid (PCI:{pci}): 149, NETIR_LINK_EVT Fatal XC0 i0 Link {link:02} (0x0 0x0)")
    assert [(event.number, event.blames) for event in watch.shown.xids or ()] == [(145, "nobody"), (149, "hardware")]
    assert {event.pci for event in watch.shown.xids or ()} == {address}
    assert [(one.cause, one.gpu) for one in watch.shown.incidents] == [("xid_hardware", 0)]


def test_k4_07(given: Given) -> None:
    """Thousands of clean-ups are one event under their cause, and alone they are our own restart."""
    pci, times = given.pci("0018:01:00"), given.number(1200)
    watch = Watch().systemd(STARTED).log([READY])
    watch.kernel(f"NVRM: Xid (PCI:{pci}): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x0)")
    follow = (f"NVRM: Xid (PCI:{pci}): 45, pid=9, Ch {n:08x} caused by previous Xid 149" for n in range(times))
    watch.log(follow, "kernel", pid=0, step_s=0.001)
    (event,) = watch.shown.xids or ()
    assert (event.number, event.after) == (149, times)
    assert len(watch.shown.incidents) == 1
    ours = Watch().systemd("Stopping engine.service - SGLang...")
    ours.log((f"NVRM: Xid (PCI:{pci}): 45, pid=9, Ch {n:08x}" for n in range(64)), "kernel", pid=0)
    assert not ours.shown.incidents
    assert [(one.number, one.count, one.blames) for one in ours.shown.xids or ()] == [(45, 64, "restart")]


def test_k4_09(given: Given, no_nvml: Path) -> None:
    """A field that this nvidia-smi does not know costs that field alone, or its older name is taken."""
    bad = ("clocks_event_reasons.active", "compute_cap")[given.sibling]
    answer = ", ".join(
        ["0", "GPU-0", "00000000:1B:00.0", "B300", "612.5", *["1"] * (len(collect_smi.FIELDS) - 6 - given.sibling)]
    )
    smi(
        no_nvml,
        f'case ",$fields," in *,{bad},*) echo \'Field "{bad}" is not a valid field to query.\'; exit 2;; '
        f"*,gpu_recovery_action,*) echo 'Field \"gpu_recovery_action\" is not a valid field to query.'; exit 2;; esac\n"
        f"while :; do echo '{answer}'; sleep 0.2; done",
    )
    gpus = Gpus(0.1)
    line = gpus.line()
    gpus.end()
    (gpu,) = Watch().take(line).shown.gpus
    assert line["via"] == "nvidia-smi"
    assert (gpu.power_w, gpu.recovery) == (612.5, None)
    assert (gpu.throttle is None, gpu.compute_capability is None) == (False, given.sibling)


def test_k4_10(given: Given) -> None:
    """Every spelling of nothing is nothing, and not zero."""
    index = given.rank(3)
    for word in ("[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "ERR!", ""):
        keys = ("index", "name", "power_w", "util", "memory_total_mib", "temperature_c", "throttle")
        reading = collect_smi.parse_row(f"{index}, NVIDIA B300 SXM6 AC, {word}, {word}, 275040, {word}, {word}", keys)
        assert reading is not None
        (gpu,) = Watch().gpus([{**reading, "lost": False}], via="nvidia-smi").shown.gpus
        assert (gpu.index, gpu.power_w, gpu.util, gpu.temperature_c, gpu.throttle) == (index, None, None, None, None)
        assert gpu.memory_total_mib == 275040


def test_k4_12(given: Given) -> None:
    """A GPU that the driver wants recovered is named, whatever it seems to do."""
    gpus, bad = eight(util=93, recovery="None"), given.rank(6)
    gpus[bad]["recovery"] = ("Reset", "Drain and Reset")[given.sibling]
    (alarm,) = Watch().gpus(gpus).shown.alarms
    assert alarm.blocks
    assert f"GPU {bad} needs a recovery" in alarm.text


def test_k4_13(given: Given, no_nvml: Path) -> None:
    """A driver that was replaced under a running service: a restart would fail, and that is said."""
    version = f"{given.number(550)}.144"
    smi(
        no_nvml,
        "echo 'Failed to initialize NVML: Driver/library version mismatch'; "
        f"echo 'NVML library version: {version}'; exit 18",
    )
    watch = Watch().gpus(eight()).take(Gpus(0.1).line())
    (alarm,) = watch.shown.alarms
    assert alarm.blocks
    assert "a restart now will probably fail" in alarm.text
    assert any(version in note for note in watch.shown.notes)
    assert [gpu.lost for gpu in watch.shown.gpus] == [False] * 8


def test_k4_15(given: Given) -> None:
    """Full utilisation without a request is no work."""
    watch = Watch().systemd(STARTED).log([READY])
    for _ in range(given.number(20, 20, 40)):
        watch.later(1).unit().ready().gpus(eight(util=100, power_w=190.0))
        watch.metrics("sglang:num_running_reqs 0\nsglang:generation_tokens_total 9\n")
    assert (watch.shown.service.health, watch.shown.service.tokens_per_s) == ("idle", 0.0)


def test_k4_16(given: Given) -> None:
    """More than 100 % is shown as it was read."""
    share = given.number(103, 101, 140)
    (gpu, *_) = Watch().gpus(eight(sm_util=share)).shown.gpus
    assert gpu.sm_util == share


def test_k4_18(given: Given, no_nvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first query that fails at boot is asked again, with all its fields."""
    tries = given.number(2, 1, 3)
    monkeypatch.setattr(collect_gpu, "_RETRY_S", 0.05)
    smi(
        no_nvml,
        f"if [ $(wc -l < {no_nvml}/started) -le {tries} ]; then echo 'No devices were found'; exit 9; fi\n"
        f"while :; do echo '{row(0, 0x1B)}'; sleep 0.1; done",
    )
    gpus, deadline = Gpus(0.1), time.monotonic() + LIMIT_S
    while not (line := gpus.line())["gpus"]:
        assert "No devices were found" in line["error"] or "no try" in line["error"]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    gpus.end()
    assert line["gpus"][0]["power_w"] == 400.5


def test_k4_19(given: Given) -> None:
    """Seven rows where the driver holds eight: one is missing, by its address, from the first look on."""
    missing = given.rank(4)
    rows = [one for one in eight() if one["index"] != missing]
    rows = [{**one, "index": place} for place, one in enumerate(rows)]
    watch = Watch().gpus(rows, present=[f"0000:{0x1B + index:02x}:00.0" for index in range(8)])
    assert [gpu.index for gpu in watch.shown.gpus if gpu.lost] == [missing]
    assert any("7 of 8" in alarm.text and alarm.blocks for alarm in watch.shown.alarms)
    silent = Watch().gpus(rows).unit(7, of=8)
    assert any("7 GPUs are there, and the service uses 8" in alarm.text for alarm in silent.shown.alarms)


def test_a_driver_that_answers_nothing_loses_no_gpu_and_all_come_back() -> None:
    watch = Watch().gpus(eight(power_w=400.0))
    watch.take({"t": "gpus", "via": "none", "gpus": [], "error": "nvml: x; nvidia-smi: y"})
    assert [gpu.lost for gpu in watch.shown.gpus] == [False] * 8
    assert watch.gpus(eight(power_w=500.0)).shown.gpus[0].power_w == 500.0


def test_xids_that_nvml_reports_stand_in_for_a_kernel_log_that_may_not_be_read() -> None:
    watch = Watch().gpus(eight()).systemd(STARTED).log([READY])
    watch.take({"t": "journal", "source": "kernel", "readable": False})
    assert watch.shown.xids is None
    assert status_json(watch.shown)["xids"] is None
    watch.take({"t": "xid", "number": 95, "pci": "00000000:1D:00.0"})
    assert [(one.cause, one.gpu) for one in watch.shown.incidents] == [("xid_hardware", 2)]
    watch.kernel("NVRM: Xid (PCI:0000:1d:00): 95, pid=1, name=python3, Uncontained")
    (event,) = watch.shown.xids or ()
    assert (event.count, event.source, event.pid) == (1, "kernel", 1)


@pytest.mark.parametrize(
    ("text", "blames", "action"),
    [
        ("GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)", "nobody", None),
        ("GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "hardware", "reset the GPU"),
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "hardware", "restart the host"),
        ("GPU recovery action changed from 0x0 (None) to 0x9 (Dance)", "hardware", "do what the driver asks for"),
    ],
)
def test_154_means_what_it_says(text: str, blames: str, action: str | None) -> None:
    watch = Watch().kernel(f"NVRM: Xid (PCI:0000:1b:00): 154, {text}")
    (event,) = watch.shown.xids or ()
    assert event.blames == blames
    assert (event.action or "").startswith(action or "")
