"""The host's kernel log: the driver's Xid line when a simulated engine faults, or this machine's own log."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress

from ddtune.sim.journal import Journal
from ddtune.sim.nvml import BUS_IDS

_FAULT = re.compile(r"illegal memory access", re.IGNORECASE)
_RANK = re.compile(r"\bTP(\d+)\b")
_REMEMBERED = 256
_KMSG = "/dev/kmsg"
_RECORD = 16384


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


def follow(journal: Journal) -> None:
    """Passes this machine's own kernel log on from now; where it may not be read there is none."""
    try:
        log = os.open(_KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    os.lseek(log, 0, os.SEEK_END)

    def read() -> None:
        # One record a read; EPIPE says that some were overwritten before they were read.
        with suppress(BlockingIOError, BrokenPipeError):
            while record := os.read(log, _RECORD):
                journal.kernel(*kmsg(record.decode("utf-8", "replace")))

    asyncio.get_running_loop().add_reader(log, read)


def kmsg(record: str) -> tuple[str, int]:
    """Text and priority of a record: ``PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT``, then lines of keys."""
    head, _, rest = record.partition(";")
    return rest.split("\n", 1)[0], int(head.split(",")[0]) & 7
