"""The GPU table: pure drawing of one moment at one width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.content import Content

from ddtune.gpu.model import GpuReading
from ddtune.gpu.reading import in_all, joules_per_token, node_power_w
from ddtune.gpu.xid import XidEvent
from ddtune.live.snapshot import Snapshot
from ddtune.onhost.fatal import pci_key
from ddtune.tui import words
from ddtune.tui.view import View, is_stale

WIDE = 84
WITH_ERRORS = 108
HOT_C = 85.0
FULL = 0.98
MIB_PER_GIB = 1024
LEAST = "▼ least"
HEAD = " util dram tens  mem%   °C"
WIDE_HEAD = " util dram tens    memory GiB    °C   GHz  nvlink GiB/s"
ERRORS_HEAD = f"{'err: ecc':>11}{'link':>6}"
NOTE_WIDTH = 9
THROTTLE = {
    "application_clocks": "clocks set",
    "power_cap": "power cap",
    "hw_slowdown": "hw slowdown",
    "sync_boost": "sync boost",
    "sw_thermal": "hot, slowed",
    "hw_thermal": "too hot",
    "power_brake": "power brake",
    "display_clock": "display clock",
    "board_limit": "board limit",
    "reliability": "voltage limit",
}
_WELL = frozenset(("", "none", "0"))


def rows(view: View, width: int, height: int) -> list[Content]:
    """A head and one line for each GPU, and their sum where there is room; a sentence where there is none."""
    snapshot = view.snapshot
    if not snapshot.gpus:
        why = "no GPU reading" if snapshot.gpu_source == "none" else "waiting for the first GPU reading"
        return [words.line((f" {why}", words.MUTED))]
    stale = is_stale(snapshot, snapshot.ages.gpus)
    wide = width >= WIDE
    bar_width = max(6, min(24, width - (72 if wide else 40) - NOTE_WIDTH))
    least = _least(snapshot.gpus)
    errors = _errors(snapshot.xids or ())
    counts = width >= WITH_ERRORS
    head = (WIDE_HEAD if wide else HEAD) + (ERRORS_HEAD if counts else "")
    lines = [_head(snapshot, bar_width, head, stale)]
    for gpu in snapshot.gpus:
        row = _row(gpu, bar_width, wide, counts, _note(gpu, gpu is least, counts, errors), gpu is least)
        lines.append(words.fit(row.stylize("dim") if stale else row, width))
    if height > len(lines):
        total = words.fit(_sum(snapshot, least), width)
        lines.append(total.stylize("dim") if stale else total)
    if height > len(lines) + len(snapshot.alarms) and not counts:
        lines.append(words.fit(_errors_in_all(snapshot.gpus), width))
    for alarm in snapshot.alarms:
        lines += words.folded("alarm", words.safe(alarm.text), width - 1, words.BAD, 8)
    return lines[:height]


def _least(gpus: Sequence[GpuReading]) -> GpuReading | None:
    """The GPU that draws least, where more than one can be compared."""
    known = [gpu for gpu in gpus if gpu.power_w is not None and not gpu.lost]
    return min(known, key=lambda gpu: gpu.power_w or 0.0) if len(known) > 1 else None


def _errors(xids: Sequence[XidEvent]) -> dict[str, int]:
    """The last Xid of each GPU that is not a restart's own noise, by PCI address."""
    return {event.pci: event.number for event in xids if event.blames not in ("restart", "nobody")}


def _head(snapshot: Snapshot, bar_width: int, columns: str, stale: bool) -> Content:
    limits = {gpu.power_limit_w for gpu in snapshot.gpus if gpu.power_limit_w is not None}
    limit = f"W of {words.number(limits.pop())}" if len(limits) == 1 else "W of its limit"
    text = f" #  {limit:<{bar_width + 6}} {columns}"
    mark = (f"  STALE {words.age(snapshot.ages.gpus)}", f"bold {words.WARN}") if stale else ""
    return words.line((text, words.MUTED), mark)


def _row(gpu: GpuReading, bar_width: int, wide: bool, counts: bool, note: Sequence[words.Part], least: bool) -> Content:
    if gpu.lost:
        return words.line(f" {gpu.index}  ", (" GPU LOST ", words.LOUD), f"  {words.safe(gpu.pci)}  ", *note)
    near = gpu.power_w is not None and gpu.power_limit_w is not None and gpu.power_w >= FULL * gpu.power_limit_w
    hot = gpu.temperature_c is not None and gpu.temperature_c >= HOT_C
    style = words.BAD if near else (words.WARN if least else words.GOOD)
    util, dram, tensor = (words.number(one) for one in (gpu.util, gpu.dram_util, gpu.tensor_util))
    share = words.number(_share(gpu))
    if wide:
        used, total = words.number(_gib(gpu.memory_used_mib)), words.number(_gib(gpu.memory_total_mib))
        memory = f"  {used:>5}/{total:<4}{share:>4}%"
        rx, tx = words.number(_gib(gpu.nvlink_rx_mib_s)), words.number(_gib(gpu.nvlink_tx_mib_s))
        clock = None if gpu.sm_clock_mhz is None else gpu.sm_clock_mhz / 1000
        tail = f" {words.number(clock, 2):>5} {rx:>4} in{tx:>4} out "
    else:
        memory, tail = f" {share:>5}", ""
    return words.line(
        f" {gpu.index}  ",
        (words.bar(gpu.power_w, gpu.power_limit_w, bar_width), style),
        (f"{words.number(gpu.power_w):>6} ", f"bold {words.WARN}" if least else "bold"),
        f"{util:>5}{dram:>5}{tensor:>5}{memory}",
        (f"{words.number(gpu.temperature_c):>5}{'!' if hot else ' '}", f"bold {words.BAD}" if hot else ""),
        tail,
        *(_counts(gpu) if counts else ()),
        *note,
    )


def _counts(gpu: GpuReading) -> list[words.Part]:
    """Errors of memory and links since the driver was loaded, in the columns of their own."""
    ecc, link = gpu.ecc_uncorrected, gpu.nvlink_errors
    return [
        (f"{words.NONE if ecc is None else words.short(ecc):>5}", f"bold {words.BAD}" if ecc else ""),
        (f"{words.NONE if link is None else words.short(link):>6}", words.WARN if link else ""),
    ]


def _errors_in_all(gpus: Sequence[GpuReading]) -> Content:
    """The same of all GPUs together, where the columns have no room."""
    said: list[words.Part] = [("    errors", words.MUTED)]
    for name, total in (
        ("ecc", in_all(gpus, lambda gpu: gpu.ecc_uncorrected)),
        ("nvlink", in_all(gpus, lambda gpu: gpu.nvlink_errors)),
    ):
        said.append((f"   {name} {words.number(total)}", f"bold {words.BAD}" if total else words.MUTED))
    return words.line(*said)


def _note(gpu: GpuReading, least: bool, counts: bool, errors: Mapping[str, int]) -> list[words.Part]:
    """What is to be known of one GPU, the worst first; ``counts``: its errors have columns of their own."""
    found: list[words.Part] = []
    number = errors.get(pci_key(gpu.pci)) if ":" in gpu.pci else None
    if number is not None:
        found.append((f" Xid {number}", f"bold {words.BAD}"))
    if gpu.ecc_uncorrected and not counts:
        found.append((f" ecc {words.number(gpu.ecc_uncorrected)}", f"bold {words.BAD}"))
    if gpu.recovery and gpu.recovery.lower() not in _WELL:
        found.append((f" needs {words.safe(gpu.recovery)}", f"bold {words.BAD}"))
    if gpu.throttle:
        said = ", ".join(THROTTLE.get(one, words.safe(one)) for one in gpu.throttle)
        found.append((f" {said}", words.WARN))
    if gpu.nvlink_errors and not counts:
        found.append((f" link {words.number(gpu.nvlink_errors)}", words.WARN))
    if gpu.mig:
        found.append((" MIG", words.NOTE))
    if least:
        found.append((f" {LEAST}", f"bold {words.WARN}"))
    return found


def _sum(snapshot: Snapshot, least: GpuReading | None) -> Content:
    watts = node_power_w(snapshot.gpus)
    known = [gpu.power_w for gpu in snapshot.gpus if gpu.power_w is not None and not gpu.lost]
    missing = len(snapshot.gpus) - len(known)
    if watts is None and known:
        return words.line(
            (f" Σ  {words.NONE}", "bold"), (f"   {missing} of {len(snapshot.gpus)} say nothing", words.WARN)
        )
    per_token = joules_per_token(watts, snapshot.service.tokens_per_s)
    lost = f" by {len(known)} of {len(snapshot.gpus)}" if missing else ""
    spread = ""
    if least is not None:
        low, high = least.power_w or 0.0, max(known)
        spread = (
            f"   least {words.number(low)} on {least.index}, most {words.number(high)} (+{words.number(high - low)})"
        )
    return words.line(
        (f" Σ  {words.number(watts)} W{lost}", "bold"),
        (f"   {words.number(per_token, 2)} J/token", ""),
        (spread, words.MUTED),
    )


def _gib(mib: float | None) -> float | None:
    return None if mib is None else mib / MIB_PER_GIB


def _share(gpu: GpuReading) -> float | None:
    if gpu.memory_used_mib is None or not gpu.memory_total_mib:
        return None
    return 100 * gpu.memory_used_mib / gpu.memory_total_mib
