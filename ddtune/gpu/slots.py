"""The GPUs of a host keep their places: one that is lost shifts nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ddtune.gpu.model import GpuReading
from ddtune.onhost.fatal import pci_key


def keep(known: Sequence[GpuReading], now: Iterable[GpuReading], present: Sequence[str] = ()) -> tuple[GpuReading, ...]:
    """``now`` in the places of ``known``. A GPU that was known, or that the driver is bound to (its PCI address is in
    ``present``), and that says nothing is lost where others answer, else silent; it keeps its index and its name.
    """
    left = list(now)
    absent = _lost if not left or any(not one.lost for one in left) else _silent
    found: list[GpuReading] = []
    for slot in known:
        match = _match(slot, left)
        if match is None:
            found.append(absent(slot))
            continue
        left.remove(match)
        found.append(_identified(match, slot))
    fresh = [one for one in left if one.uuid or one.pci or not found]
    missing = {pci_key(address) for address in present} - {_address(one) for one in (*found, *fresh)}
    # Rows without a name of their own are the lost ones, which the driver's addresses name.
    named = [one for one in fresh if one.uuid or one.pci or not missing]
    named += [absent(GpuReading(-1, "", address, "")) for address in sorted(missing)]
    return _placed(found, named)


def _match(slot: GpuReading, left: Sequence[GpuReading]) -> GpuReading | None:
    by_uuid = (one for one in left if slot.uuid and one.uuid == slot.uuid)
    by_address = (one for one in left if slot.pci and _address(one) == _address(slot))
    by_index = (one for one in left if not (slot.uuid or slot.pci) and one.index == slot.index)
    return next(iter((*by_uuid, *by_address, *by_index)), None)


def _identified(one: GpuReading, slot: GpuReading) -> GpuReading:
    return replace(
        one,
        index=slot.index,
        uuid=one.uuid or slot.uuid,
        pci=one.pci or slot.pci,
        name=one.name or slot.name,
        compute_capability=one.compute_capability or slot.compute_capability,
    )


def _lost(slot: GpuReading) -> GpuReading:
    return GpuReading(
        slot.index, slot.uuid, slot.pci, slot.name, compute_capability=slot.compute_capability, mig=slot.mig, lost=True
    )


def _silent(slot: GpuReading) -> GpuReading:
    return replace(_lost(slot), lost=slot.lost, silent=not slot.lost)


def _placed(found: Sequence[GpuReading], fresh: Sequence[GpuReading]) -> tuple[GpuReading, ...]:
    if not fresh:
        return tuple(found)
    whole = [*found, *fresh]
    if not found and all(one.pci for one in whole):
        # NVML numbers by PCI address, of those that answer; with the silent ones between them the numbers are right.
        whole.sort(key=_address)
        return tuple(replace(one, index=place) for place, one in enumerate(whole))
    taken = {one.index for one in found}
    placed = list(found)
    for one in fresh:
        index = one.index if one.index >= 0 and one.index not in taken else max(taken, default=-1) + 1
        taken.add(index)
        placed.append(replace(one, index=index))
    return tuple(sorted(placed, key=lambda one: one.index))


def _address(one: GpuReading) -> str:
    return pci_key(one.pci) if one.pci else ""
