"""One reading of one GPU, and what may be wrong with them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuReading:
    """What one GPU said at one tick. ``None`` means not available, never zero.

    ``util``, ``dram_util`` and ``tensor_util`` are percentages; NVLink rates are MiB/s; ``throttle`` holds the names of
    the clock event reasons in force (empty when none). ``mig``: the GPU is cut into instances, and what is said of the
    whole of it may be missing. ``recovery`` is what the driver asks for before the GPU is used again, or ``none``.
    ``ecc_uncorrected`` counts memory errors and ``nvlink_errors`` what the links had to repeat, recover or drop, both
    since the driver was loaded. ``silent``: nothing was said of it where none of the others answered either, so that it
    is not known to be lost.
    """

    index: int
    uuid: str
    pci: str
    name: str
    power_w: float | None = None
    power_limit_w: float | None = None
    util: float | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    throttle: tuple[str, ...] | None = None
    graphics_util: float | None = None
    sm_util: float | None = None
    dram_util: float | None = None
    tensor_util: float | None = None
    nvlink_rx_mib_s: float | None = None
    nvlink_tx_mib_s: float | None = None
    compute_capability: str | None = None
    lost: bool = False
    mig: bool | None = None
    recovery: str | None = None
    ecc_uncorrected: float | None = None
    nvlink_errors: float | None = None
    silent: bool = False


@dataclass(frozen=True)
class Alarm:
    """One sentence about the GPUs. ``blocks``: a restart of the service would probably not come up."""

    text: str
    blocks: bool = False
