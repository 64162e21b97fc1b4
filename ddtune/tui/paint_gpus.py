"""The GPU table: pure drawing of one moment at one width."""

from __future__ import annotations

from textual.content import Content

from ddtune.gpu.model import GpuReading
from ddtune.gpu.reading import node_power_w
from ddtune.live.snapshot import Snapshot
from ddtune.tui import words
from ddtune.tui.view import View, is_stale

WIDE = 92
HOT_C = 85.0
FULL = 0.98
MIB_PER_GIB = 1024
HEAD = " util  dram  tens  mem%   °C"
WIDE_HEAD = " util  dram  tens   memory GiB       °C   MHz   nvlink GiB/s"


def rows(view: View, width: int, height: int) -> list[Content]:
    """A head and one line for each GPU, and their sum where there is room; a sentence where there is none."""
    snapshot = view.snapshot
    if not snapshot.gpus:
        why = "no GPU reading" if snapshot.gpu_source == "none" else "waiting for the first GPU reading"
        return [words.line((f" {why}", words.MUTED))]
    stale = is_stale(snapshot, snapshot.ages.gpus)
    wide = width >= WIDE
    bar_width = max(6, min(40, width - (80 if wide else 50)))
    lines = [_head(snapshot, bar_width, wide, stale)]
    for gpu in snapshot.gpus:
        row = _row(gpu, bar_width, wide)
        lines.append(words.fit(row.stylize("dim") if stale else row, width))
    if height > len(lines):
        lines.append(_sum(snapshot))
    return lines


def _head(snapshot: Snapshot, bar_width: int, wide: bool, stale: bool) -> Content:
    limits = {gpu.power_limit_w for gpu in snapshot.gpus if gpu.power_limit_w is not None}
    limit = f"W of {words.number(limits.pop())}" if len(limits) == 1 else "W of its limit"
    middle = WIDE_HEAD if wide else HEAD
    text = f" #  {limit:<{bar_width + 6}}{middle}"
    mark = (f"  STALE {words.age(snapshot.ages.gpus)}", f"bold {words.WARN}") if stale else ""
    return words.line((text, "bold"), mark)


def _row(gpu: GpuReading, bar_width: int, wide: bool) -> Content:
    if gpu.lost:
        return words.line(f" {gpu.index}  ", (" GPU LOST ", words.LOUD), f"  {words.safe(gpu.pci)}")
    near = gpu.power_w is not None and gpu.power_limit_w is not None and gpu.power_w >= FULL * gpu.power_limit_w
    hot = gpu.temperature_c is not None and gpu.temperature_c >= HOT_C
    busy = "".join(f"{words.number(one):>6}" for one in (gpu.util, gpu.dram_util, gpu.tensor_util))
    share = _share(gpu)
    if wide:
        used, total = _gib(gpu.memory_used_mib), _gib(gpu.memory_total_mib)
        memory = f"{words.number(used):>5}/{words.number(total)} {words.number(share):>3}%"
        memory = f"  {memory:<14}"
        links = f"   {words.number(_gib(gpu.nvlink_rx_mib_s)):>4} in {words.number(_gib(gpu.nvlink_tx_mib_s)):>3} out"
        tail = f" {words.number(gpu.sm_clock_mhz):>6}{links}"
    else:
        memory, tail = f" {words.number(share):>5}", ""
    return words.line(
        f" {gpu.index}  ",
        (words.bar(gpu.power_w, gpu.power_limit_w, bar_width), words.WARN if near else words.GOOD),
        (f"{words.number(gpu.power_w):>5} ", "bold"),
        f"{busy}{memory}",
        (f"{words.number(gpu.temperature_c):>5}{'!' if hot else ' '}", f"bold {words.BAD}" if hot else ""),
        tail,
        (f"  {words.safe(', '.join(gpu.throttle))}" if gpu.throttle else "", words.WARN),
    )


def _sum(snapshot: Snapshot) -> Content:
    known = [gpu.power_w for gpu in snapshot.gpus if gpu.power_w is not None]
    least = min(
        (gpu for gpu in snapshot.gpus if gpu.power_w is not None), key=lambda gpu: gpu.power_w or 0.0, default=None
    )
    if least is None:
        return words.line("")
    spread = f"least on {least.index} ({words.number(least.power_w)} W), most {words.number(max(known))} W"
    return words.line((f" Σ  {words.number(node_power_w(snapshot.gpus))} W", "bold"), (f"   {spread}", words.MUTED))


def _gib(mib: float | None) -> float | None:
    return None if mib is None else mib / MIB_PER_GIB


def _share(gpu: GpuReading) -> float | None:
    if gpu.memory_used_mib is None or not gpu.memory_total_mib:
        return None
    return 100 * gpu.memory_used_mib / gpu.memory_total_mib
