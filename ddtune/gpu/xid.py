"""Xids as the kernel and NVML tell of them: one event a fault, and what only follows folded under it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ddtune.gpu.catalogue import meaning
from ddtune.onhost.fatal import XID, pci_key

KEPT = 64
GONE = 79
CLEANED_UP = 45
SAME_S = 600.0
NEAR_S = 60.0
_SPLIT_S = 5.0
NVML_SAYS = "NVML: Xid "

_CAUSED_BY = re.compile(r"caused by previous Xid (\d+)")
_GONE = re.compile(
    r"NVRM: .*?(?:GPU |PCI:)(?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})\b.*fallen off the bus"
)
_GONE_HEAD = re.compile(r"NVRM: The NVIDIA GPU (?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.\d)?\s*$")
_GONE_TAIL = re.compile(r"NVRM:\s+fallen off the bus\b")


@dataclass(frozen=True)
class XidEvent:
    """One fault of one GPU. ``pci`` is in lower case without the function; ``count`` is how often it came, ``after``
    how many clean-ups (Xid 45) followed from it. ``source`` is ``kernel`` or ``nvml``.
    """

    at: float
    pci: str
    number: int
    name: str
    blames: str
    action: str | None = None
    text: str = ""
    source: str = "kernel"
    pid: int | None = None
    process: str | None = None
    count: int = 1
    after: int = 0
    last_at: float = 0.0


@dataclass(frozen=True)
class Xids:
    """What was told so far, oldest first; ``half`` is a sentence that the kernel writes over three lines."""

    events: tuple[XidEvent, ...] = ()
    half: tuple[str, float] | None = None

    def after_line(self, at: float, text: str) -> Xids:
        """With one more line of the kernel's log, whatever it says."""
        found = XID.search(text)
        if found:
            return self._with(_event(at, found, text))
        head = _GONE_HEAD.search(text)
        if head:
            return replace(self, half=(pci_key(head["pci"]), at))
        gone = _GONE.search(text)
        if gone:
            return self._with(_gone(at, pci_key(gone["pci"]), text))
        if self.half and _GONE_TAIL.search(text):
            pci, begun = self.half
            whole = replace(self, half=None)
            return whole._with(_gone(at, pci, text)) if at - begun <= _SPLIT_S else whole
        return self

    def after_event(self, at: float, pci: str, number: int) -> Xids:
        """With an Xid that NVML reported; one that the kernel's log has as well stays one."""
        pci = pci_key(pci)
        near = (one for one in self.events if one.pci == pci and one.number == number)
        if any(abs(one.last_at - at) <= NEAR_S for one in near):
            return self
        means = meaning(number)
        return self._with(
            XidEvent(
                at, pci, number, means.name, means.blames, means.action, f"{NVML_SAYS}{number}", "nvml", last_at=at
            )
        )

    def _with(self, event: XidEvent) -> Xids:
        if event.number == CLEANED_UP:
            cause = self._cause_of(event)
            if cause is not None:
                return self._changed(cause, replace(self.events[cause], after=self.events[cause].after + 1))
        for place in range(len(self.events) - 1, -1, -1):
            known = self.events[place]
            if (known.pci, known.number) != (event.pci, event.number) or event.at - known.last_at > SAME_S:
                continue
            near = event.at - known.last_at <= NEAR_S
            if known.source == "nvml" and event.source == "kernel" and near:
                # Of the two only the kernel says whose it is, and how bad.
                return self._changed(
                    place, replace(event, at=min(known.at, event.at), count=known.count, after=known.after)
                )
            if known.blames == event.blames and _of_one_process(known, event):
                again = known.count if known.number == GONE and near else known.count + 1
                return self._changed(place, replace(known, count=again, last_at=event.at))
        return replace(self, events=(*self.events, event)[-KEPT:])

    def _cause_of(self, event: XidEvent) -> int | None:
        """Where the fault is that a clean-up follows from."""
        named = _CAUSED_BY.search(event.text)
        for place in range(len(self.events) - 1, -1, -1):
            known = self.events[place]
            if known.number == CLEANED_UP or known.pci != event.pci:
                continue
            if named and known.number == int(named[1]):
                return place
            if not named and event.at - known.last_at <= NEAR_S and known.blames != "nobody":
                return place
        return None

    def _changed(self, place: int, event: XidEvent) -> Xids:
        return replace(self, events=(*self.events[:place], event, *self.events[place + 1 :]))


def _of_one_process(known: XidEvent, event: XidEvent) -> bool:
    """Whether the two may be told as one. What is no process's fault is one fault of the GPU, whoever met it."""
    return known.blames != "profile" or (known.pid == event.pid and known.source == event.source)


def _event(at: float, found: re.Match[str], text: str) -> XidEvent:
    number, rest = int(found["number"]), found["rest"]
    means = meaning(number, rest)
    pid = found["pid"]
    return XidEvent(
        at=at,
        pci=pci_key(found["pci"]),
        number=number,
        name=means.name,
        blames=means.blames,
        action=means.action,
        text=text,
        pid=int(pid) if pid and pid.isdigit() else None,
        process=found["name"],
        last_at=at,
    )


def _gone(at: float, pci: str, text: str) -> XidEvent:
    means = meaning(GONE)
    return XidEvent(at, pci, GONE, means.name, means.blames, means.action, text, last_at=at)
