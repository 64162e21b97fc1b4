"""What the kernel's log says when the engine faults: the driver's Xid line, once for each rank of each start."""

from __future__ import annotations

import re

from ddtune.sim.journal import Journal
from ddtune.sim.nvml import BUS_IDS

_FAULT = re.compile(r"illegal memory access", re.IGNORECASE)
_RANK = re.compile(r"\bTP(\d+)\b")
_REMEMBERED = 256


def xid_line(rank: int, pid: int) -> str:
    """Xid 31, as the driver reports a rank whose kernel touched memory that is not mapped."""
    bus = BUS_IDS[rank % len(BUS_IDS)].lower()[4:].rsplit(".", 1)[0]
    return (
        f"NVRM: Xid (PCI:{bus}): 31, pid={pid}, name=sglang::schedul, Ch 00000008, intr 00000000. MMU Fault: "
        "ENGINE GRAPHICS GPCCLIENT_T1_3 faulted @ 0x7f3c_a2e00000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
    )


def watch(journal: Journal) -> None:
    """Writes the line when a unit's output tells of an illegal memory access."""
    told: dict[tuple[str, int], None] = {}

    def see(_: str, invocation: str, pid: int, text: str) -> None:
        if not _FAULT.search(text):
            return
        match = _RANK.search(text)
        rank = int(match[1]) if match else 0
        if (invocation, rank) not in told:
            told[invocation, rank] = None
            if len(told) > _REMEMBERED:
                del told[next(iter(told))]
            journal.kernel(xid_line(rank, pid))

    journal.on_unit_line = see
