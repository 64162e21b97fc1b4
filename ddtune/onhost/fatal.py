"""Which line of a journal ends a trial, and what the kernel's Xid numbers mean for it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import slow_regex
from .journal import Entry

_LONGEST = 4096
_SLOW_LINES = 3
_RANK = re.compile(r"\b(TP\d+)\b")
XID = re.compile(
    r"NVRM: Xid \(PCI:(?P<pci>[0-9A-Fa-f:.]+)(?: [^)]*)?\): (?P<number>\d+)"
    r"(?:, pid='?(?P<pid>\d+|<unknown>)'?)?(?:, name=(?P<name>[^,]+))?(?P<rest>.*)"
)
"""A fault in the kernel's log. Of a GPU in MIG mode the instance follows the address: ``(PCI:0000:41:00 GPU-I:03)``."""
# One line, or the last of three of which the first names the GPU: some drivers say it so, and give no Xid.
_GONE = re.compile(
    r"NVRM: .*?(?:GPU |PCI:)([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\b.*\bfallen off the bus\b"
    r"|NVRM:\s+fallen off the bus\b"
)

# NVIDIA's Xid catalogue, column "immediate action" (2025-09). What is in neither set says nothing about a trial.
XID_APP = frozenset((13, 31, 43, 69, 94))
XID_HARDWARE = frozenset(
    (46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158, 171, 172, *range(144, 151))
)
XID_REBOOT = frozenset((79,))
# NVLink 5 uses one number for both, and says which.
_NVLINK5 = frozenset(range(144, 151))
_NONFATAL = re.compile(r"\bNon-?fatal\b", re.IGNORECASE)
# 154 carries the driver's own word for what to do; these words ask for nothing.
_NOTHING = re.compile(r"\(None\)\s*\Z")


@dataclass(frozen=True)
class Match:
    """A line that decides. ``action`` is set where only a person can help; ``pid`` is the process it blames."""

    cause: str
    evidence: Mapping[str, Any]
    action: str | None = None
    pid: int | None = None


def _compile(regex: object) -> re.Pattern[str] | None:
    try:
        return re.compile(regex) if isinstance(regex, str) else None
    except (re.error, RecursionError):
        return None


class Patterns:
    """The fatal patterns of one transaction, tried in order; one that does not compile, or is slow, is left out."""

    def __init__(self, patterns: Iterable[Mapping[str, str]]) -> None:
        compiled = ((pattern.get("cause"), _compile(pattern.get("regex"))) for pattern in patterns)
        self._compiled = [(str(cause), regex) for cause, regex in compiled if cause and regex]
        self._slow: Counter[str] = Counter()

    def cause(self, text: str) -> str | None:
        """The cause that ``text`` is a fatal line for, or None."""
        head = text[:_LONGEST]
        return next((cause for cause, regex in self._compiled if self._matches(regex, head)), None)

    def _matches(self, regex: re.Pattern[str], text: str) -> bool:
        """A line that takes too long is none of its; the guard has more to do than to read."""
        if self._slow[regex.pattern] >= _SLOW_LINES:
            return False
        try:
            return slow_regex.search(regex, text)
        except slow_regex.SlowError:
            self._slow[regex.pattern] += 1
            return False

    def match(self, entry: Entry) -> Match | None:
        """What ``entry`` says of the trial, or None."""
        if entry.source == "kernel":
            return xid(entry)
        cause = self.cause(entry.text)
        if cause is None:
            return None
        return Match(cause, evidence(entry), _HARDWARE_ACTION if cause == "xid_hardware" else None)


_HARDWARE_ACTION = (
    "a GPU reports an error that a restart cannot cure: reset or replace it, then start the service again"
)


def evidence(entry: Entry) -> dict[str, Any]:
    """``entry`` as a line of evidence."""
    rank = _RANK.search(entry.text[:200])
    return {"at": entry.at, "source": entry.source, "rank": rank.group(1) if rank else None, "text": entry.text[:2000]}


def xid(entry: Entry) -> Match | None:
    """What a kernel line says by its Xid, or of a GPU that is gone; None when it says nothing about a trial."""
    found = XID.search(entry.text)
    if found is None:
        return _gone(entry)
    pci, number, rest = found["pci"], int(found["number"]), found["rest"]
    pid = int(found["pid"]) if found["pid"] and found["pid"].isdigit() else None
    said = evidence(entry)
    if number == 154 and not _NOTHING.search(rest):
        return Match("xid_hardware", said, f"GPU {pci} reports Xid 154{rest.rstrip()}: do what it asks for", pid)
    if number in _NVLINK5 and _NONFATAL.search(rest):
        return None
    if number in XID_REBOOT:
        return Match("gpu_lost", said, f"GPU {pci} has fallen off the bus (Xid {number}): restart the host", pid)
    if number in XID_HARDWARE:
        return Match("xid_hardware", said, f"GPU {pci} reports Xid {number}: reset the GPU or restart the host", pid)
    if number in XID_APP:
        return Match("xid_app", said, None, pid)
    return None


def _gone(entry: Entry) -> Match | None:
    found = _GONE.search(entry.text)
    if found is None:
        return None
    which = f"GPU {found[1]}" if found[1] else "a GPU"
    return Match("gpu_lost", evidence(entry), f"{which} has fallen off the bus: restart the host")


def pci_key(address: str) -> str:
    """A PCI address as the kernel writes it: lower case, a domain of four digits, without the function."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest.partition('.')[0]}"
