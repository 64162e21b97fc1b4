"""From the collector's line to readings, and what they add up to. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ddtune.gpu.model import GpuReading
from ddtune.onhost.fatal import pci_key

_THROTTLE = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "power_brake",
    0x100: "display_clock",
    0x200: "board_limit",
    0x400: "reliability",
}
_NUMBERS = (
    *("power_w", "power_limit_w", "util", "memory_used_mib", "memory_total_mib", "temperature_c", "sm_clock_mhz"),
    *("graphics_util", "sm_util", "dram_util", "tensor_util", "nvlink_rx_mib_s", "nvlink_tx_mib_s"),
    *("ecc_uncorrected", "nvlink_errors"),
)


def from_line(line: Mapping[str, Any]) -> tuple[GpuReading, ...]:
    """The GPUs of a line of kind ``gpus``. What is missing or not a number is not available; an odd GPU is left out."""
    gpus = line.get("gpus")
    return tuple(_reading(gpu) for gpu in gpus if isinstance(gpu, Mapping)) if isinstance(gpus, list) else ()


def _reading(gpu: Mapping[str, Any]) -> GpuReading:
    index = _number(gpu.get("index"))
    return GpuReading(
        index=-1 if index is None else int(index),
        uuid=str(gpu.get("uuid") or ""),
        pci=str(gpu.get("pci") or ""),
        name=str(gpu.get("name") or ""),
        throttle=throttle_names(gpu.get("throttle")),
        compute_capability=str(gpu["compute_capability"]) if gpu.get("compute_capability") else None,
        lost=gpu.get("lost") is True,
        silent=False,
        mig=gpu["mig"] if isinstance(gpu.get("mig"), bool) else None,
        recovery=str(gpu["recovery"]) if gpu.get("recovery") else None,
        **{name: _number(gpu.get(name)) for name in _NUMBERS},
    )


def throttle_names(reasons: Any) -> tuple[str, ...] | None:
    """Names of NVML's clock event reasons (a bit mask, or names already). Idling is no limit and has no name here."""
    if isinstance(reasons, (list, tuple)):
        return tuple(str(reason) for reason in reasons)
    mask = _number(reasons)
    if mask is None:
        return None
    bits = int(mask)
    known = tuple(name for bit, name in _THROTTLE.items() if bits & bit and name != "idle")
    unknown = bits & ~sum(_THROTTLE)
    return (*known, f"0x{unknown:x}") if unknown else known


def arch(gpu: GpuReading) -> str | None:
    """The architecture as compilers name it, such as ``sm_103`` for compute capability 10.3."""
    if gpu.compute_capability is None:
        return None
    return "sm_" + gpu.compute_capability.replace(".", "")


def node_power_w(gpus: Iterable[GpuReading]) -> float | None:
    """What all GPUs draw together, as ``in_all`` has it."""
    return in_all(gpus, lambda gpu: gpu.power_w)


def in_all(gpus: Iterable[GpuReading], of: Callable[[GpuReading], float | None]) -> float | None:
    """The sum over all GPUs; None when one that is there says nothing, since a part would pass for the whole."""
    said = [of(gpu) for gpu in gpus if not gpu.lost]
    known = [one for one in said if one is not None]
    return math.fsum(known) if known and len(known) == len(said) else None


def joules_per_token(power_w: float | None, tokens_per_s: float | None) -> float | None:
    """Energy that one generated token takes; None while none is generated."""
    return power_w / tokens_per_s if power_w is not None and tokens_per_s else None


def by_pci(gpus: Iterable[GpuReading]) -> dict[str, int]:
    """Index by PCI address as the kernel writes it: lower case, a domain of four digits, without the function."""
    return {pci_key(gpu.pci): gpu.index for gpu in gpus if ":" in gpu.pci}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        return None
