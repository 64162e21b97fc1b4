"""The Xid table of this side and the guard's small one on the host say the same."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from ddtune.engine.incidents import classify
from ddtune.engine.model import LogLine
from ddtune.gpu.catalogue import meaning
from ddtune.gpu.xid import Xids
from ddtune.onhost.fatal import XID_APP, XID_HARDWARE, XID_REBOOT, xid
from ddtune.onhost.journal import Entry

LINES = [
    "NVRM: Xid (PCI:0000:1b:00): 31, pid=42, name=python3, MMU Fault",
    "NVRM: Xid (PCI:0000:41:00 GPU-I:03): 94, pid=77, name=python3, Contained: SM (0x1)",
    "NVRM: Xid (PCI:0000:41:00 GPU-I:03): 95, pid='<unknown>', name=<unknown>, Uncontained: LTC",
    "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00",
    "NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x0)",
    "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)",
    "NVRM: Xid (PCI:0000:1b:00): 45, pid=9, Ch 00000001",
    "NVRM: Xid (PCI:0000:1b:00): 63, Row Remapper: New row marked for remapping",
    "NVRM: Xid (PCI:0000:1b:00): 999, something new",
]


def test_the_two_tables_blame_alike() -> None:
    table = tomllib.loads(files("ddtune.gpu").joinpath("xid.toml").read_text(encoding="utf-8"))["xid"]
    for blames, numbers in (("profile", XID_APP), ("hardware", XID_HARDWARE)):
        assert {int(number) for number, entry in table.items() if entry["blames"] == blames} == numbers
    assert {number for number in XID_HARDWARE if meaning(number).action == "restart the host"} == XID_REBOOT


@pytest.mark.parametrize("text", LINES)
def test_the_two_read_a_line_alike(text: str) -> None:
    (event,) = Xids().after_line(1.0, text).events
    match = xid(Entry(1.0, "kernel", text, None, None, None))
    wanted = {"profile": ("xid_app",), "hardware": ("xid_hardware", "gpu_lost")}.get(event.blames)
    assert (match.cause in wanted) if match and wanted else (match is None and wanted is None)
    assert match is None or match.pid == event.pid


def test_an_instance_of_a_gpu_is_found_in_a_fault_too() -> None:
    lines = [
        LogLine(1.0, "RuntimeError: CUDA error: an illegal memory access", fatal="illegal_memory_access"),
        LogLine(1.1, "NVRM: Xid (PCI:0000:41:00 GPU-I:03): 94, pid=77, name=python3, x", "kernel"),
    ]
    found = classify(lines, {"0000:41:00": 3})
    assert found is not None
    assert (found.xids, found.gpu) == ((94,), 3)
