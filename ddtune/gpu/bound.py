"""What bounds the run, from GPM's counters: a label and its reason in numbers. Pure.

NVML's utilisation cannot tell: a copy that waits for memory and a kernel that waits for the host are both at 100 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ddtune.gpu.model import GpuReading

HBM_FROM = 65.0
COMPUTE_FROM = 50.0
LINK_FROM = 50.0
BUSY_FROM = 90.0
DRAM_LOW = 30.0
TENSOR_LOW = 20.0
IDLE_BELOW = 5.0
_MIB = 1024 * 1024
# NVLink's rate in one direction for each architecture that has GPM; others have no known peak.
_LINK_PEAK_MIB_S = {"9.0": 450e9 / _MIB, "10.0": 900e9 / _MIB, "10.3": 900e9 / _MIB}


@dataclass(frozen=True)
class Bound:
    """``label`` is ``HBM``, ``compute``, ``link``, ``host or latency``, ``mixed``, ``idle`` or ``unknown``.

    ``reason`` holds the means over the GPUs that it rests on, in percent: ``nvlink`` of its peak, ``busy`` the time in
    which any kernel ran.
    """

    label: str
    reason: str


def bound(gpus: Sequence[GpuReading]) -> Bound:
    """What bounds the GPUs that answer. Thresholds are ours: DRAM from 65 %, tensor cores and NVLink from 50 %; with
    graphics at 90 %, DRAM under 30 % and tensor cores under 20 % the GPU is kept busy by launches, spins and small
    kernels.
    """
    here = [gpu for gpu in gpus if not gpu.lost]
    dram, tensor = _mean(here, lambda one: one.dram_util), _mean(here, lambda one: one.tensor_util)
    if dram is None or tensor is None:
        return Bound("unknown", "no GPM counters" if here else "no GPU reading")
    link = _mean(here, link_share)
    graphics = _mean(here, lambda one: one.graphics_util if one.graphics_util is not None else one.util)
    return Bound(_label(dram, tensor, link, graphics), _reason(dram, tensor, link, graphics))


def link_share(gpu: GpuReading) -> float | None:
    """NVLink's busier direction in percent of its peak; None where either is not known."""
    peak = _LINK_PEAK_MIB_S.get(gpu.compute_capability or "")
    rates = [rate for rate in (gpu.nvlink_rx_mib_s, gpu.nvlink_tx_mib_s) if rate is not None]
    return 100 * max(rates) / peak if peak and rates else None


def _label(dram: float, tensor: float, link: float | None, graphics: float | None) -> str:
    over = {
        "HBM": dram / HBM_FROM,
        "compute": tensor / COMPUTE_FROM,
        "link": (link or 0.0) / LINK_FROM,
    }
    reached = [label for label, share in over.items() if share >= 1]
    if len(reached) == 1:
        return reached[0]
    if reached or graphics is None:
        return "mixed"
    if graphics < IDLE_BELOW:
        return "idle"
    return "host or latency" if graphics >= BUSY_FROM and dram < DRAM_LOW and tensor < TENSOR_LOW else "mixed"


def _reason(dram: float, tensor: float, link: float | None, graphics: float | None) -> str:
    parts = (("dram", dram), ("tensor", tensor), ("nvlink", link), ("busy", graphics))
    return ", ".join(f"{name} {share:.0f}" for name, share in parts if share is not None) + " %"


def _mean(gpus: Sequence[GpuReading], of: Callable[[GpuReading], float | None]) -> float | None:
    known = [value for gpu in gpus if (value := of(gpu)) is not None]
    return math.fsum(known) / len(known) if known else None
