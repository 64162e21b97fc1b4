"""The GPU table: pure drawing of one snapshot at one width."""

from __future__ import annotations

from rich.text import Text

from ddtune.gpu.model import GpuReading
from ddtune.live.snapshot import Snapshot
from ddtune.tui import words

WIDE = 100
HOT_C = 85.0
FULL = 0.98


def rows(snapshot: Snapshot, width: int) -> list[Text]:
    """A head and one line for each GPU; a sentence where there is none."""
    if not snapshot.gpus:
        why = "no GPU reading" if snapshot.gpu_source == "none" else "waiting for the first GPU reading"
        return [Text(why, style="dim")]
    stale = snapshot.ages.gpus is None or snapshot.ages.gpus > words.STALE_TICKS * snapshot.tick_s
    wide = width >= WIDE
    bar_width = max(6, min(24, width - (76 if wide else 56)))
    lines = [_head(snapshot, bar_width, wide, stale)]
    lines += [_row(gpu, bar_width, wide, stale, width) for gpu in snapshot.gpus]
    return lines


def _head(snapshot: Snapshot, bar_width: int, wide: bool, stale: bool) -> Text:
    limits = {gpu.power_limit_w for gpu in snapshot.gpus if gpu.power_limit_w is not None}
    limit = f"W of {words.number(limits.pop())}" if len(limits) == 1 else "W of limit"
    middle = "util  dram  tens  memory GiB        °C   MHz" if wide else "util dram tens  mem%   °C"
    text = Text(f" #  {limit:<{bar_width + 7}}{middle}", style="bold")
    if stale:
        text.append(f"  STALE {words.age(snapshot.ages.gpus)}", style="bold yellow")
    return text


def _row(gpu: GpuReading, bar_width: int, wide: bool, stale: bool, width: int) -> Text:
    style = "dim" if stale else ""
    text = Text(style=style, no_wrap=True)
    text.append(f" {gpu.index}  ")
    if gpu.lost:
        return text.append("GPU LOST", style="bold red").append(f"  {words.safe(gpu.pci)}")
    near = gpu.power_w is not None and gpu.power_limit_w is not None and gpu.power_w >= FULL * gpu.power_limit_w
    text.append(words.bar(gpu.power_w, gpu.power_limit_w, bar_width), style="yellow" if near else "green")
    text.append(f" {words.number(gpu.power_w):>5} ")
    hot = gpu.temperature_c is not None and gpu.temperature_c >= HOT_C
    share = _share(gpu)
    if wide:
        used = None if gpu.memory_used_mib is None else gpu.memory_used_mib / 1024
        total = None if gpu.memory_total_mib is None else gpu.memory_total_mib / 1024
        memory = f"{words.number(used)}/{words.number(total)} {words.number(share)}%"
        busy = (words.number(one) for one in (gpu.util, gpu.dram_util, gpu.tensor_util))
        text.append("".join(f"{one:>5} " for one in busy) + f" {memory:<15}")
    else:
        text.append(
            f"{words.number(gpu.util):>5} {words.number(gpu.dram_util):>4} {words.number(gpu.tensor_util):>4} "
            f"{words.number(share):>5}"
        )
    text.append(f"{words.number(gpu.temperature_c):>5}", style="bold red" if hot else "")
    if wide:
        text.append(f" {words.number(gpu.sm_clock_mhz):>5}")
    if gpu.throttle:
        text.append(
            "  " + words.clip(words.safe(", ".join(gpu.throttle)), max(4, width - text.cell_len - 2)), style="yellow"
        )
    return text


def _share(gpu: GpuReading) -> float | None:
    if gpu.memory_used_mib is None or not gpu.memory_total_mib:
        return None
    return 100 * gpu.memory_used_mib / gpu.memory_total_mib


def total_w(snapshot: Snapshot) -> float | None:
    """Watts of the node, or None as long as a GPU's are unknown."""
    watts = [gpu.power_w for gpu in snapshot.gpus]
    return None if not watts or None in watts else sum(watt for watt in watts if watt is not None)
