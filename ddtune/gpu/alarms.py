"""What the GPUs say against a restart, in sentences. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ddtune.gpu.catalogue import meaning
from ddtune.gpu.model import Alarm, GpuReading
from ddtune.gpu.xid import XidEvent

STALE_S = 15.0
_MISMATCH = re.compile(r"version mismatch", re.IGNORECASE)
_SOURCES = {"nvml": "the GPU driver", "nvidia-smi": "nvidia-smi"}
_WELL = frozenset(("", "none", "0"))


def alarms(
    gpus: Sequence[GpuReading],
    source: str | None = None,
    error: str | None = None,
    age_s: float | None = None,
    needed: int | None = None,
) -> tuple[Alarm, ...]:
    """``error`` is why there is no reading, ``age_s`` the last one's age, ``needed`` how many GPUs the service uses."""
    found = [*_lost(gpus), *_recovery(gpus)]
    if needed is not None and gpus and len(gpus) < needed:
        found.append(Alarm(f"{len(gpus)} GPUs are there, and the service uses {needed}", blocks=True))
    if error and _MISMATCH.search(error):
        found.append(
            Alarm(
                "the NVIDIA driver was replaced while it was in use: a restart now will probably fail, since the "
                "running service still lives on the old driver; restart the host first",
                blocks=True,
            )
        )
    if age_s is not None and age_s > STALE_S:
        who = _SOURCES.get(source or "", "the GPU driver")
        found.append(Alarm(f"{who} does not answer: the GPU readings are {age_s:.0f} s old"))
    return tuple(found)


def xid_sentence(event: XidEvent, gpus: Mapping[str, int]) -> str:
    """One event for a reader: which GPU, what, how often, and what to do."""
    index = gpus.get(event.pci)
    where = f"GPU {index} ({event.pci})" if index is not None else f"GPU at {event.pci}"
    times = f", {event.count} times" if event.count > 1 else ""
    follows = f", with {event.after} clean-ups" if event.after else ""
    todo = f": {event.action}" if event.action and event.blames == "hardware" else ""
    return f"{where}: Xid {event.number}, {event.name}{times}{follows}{todo}"


def _lost(gpus: Sequence[GpuReading]) -> list[Alarm]:
    lost = [gpu for gpu in gpus if gpu.lost]
    if not lost:
        return []
    names = ", ".join(f"GPU {gpu.index} ({gpu.pci or 'address unknown'})" for gpu in lost)
    verb = "is" if len(lost) == 1 else "are"
    silent = sum(gpu.silent for gpu in gpus)
    answer = f"{len(gpus) - len(lost) - silent} of {len(gpus)} GPUs answer"
    rest = f", and nothing is said of the other {silent}" if silent else ""
    text = f"{answer}: {names} {verb} lost{rest}; {meaning(79).action}"
    return [Alarm(text, blocks=True)]


def _recovery(gpus: Sequence[GpuReading]) -> list[Alarm]:
    return [
        Alarm(f"GPU {gpu.index} needs a recovery before it is used again: {gpu.recovery}", blocks=True)
        for gpu in gpus
        if gpu.recovery and gpu.recovery.lower() not in _WELL
    ]
