"""What bounds the run, told from GPM's counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddtune.gpu.bound import bound, link_share
from ddtune.gpu.model import GpuReading


def gpu(
    dram: float | None = 9.0, tensor: float | None = 7.0, busy: float | None = 97.0, link: float = 0.0
) -> GpuReading:
    return GpuReading(
        0,
        "GPU-0",
        "00000000:1b:00.0",
        "B300",
        util=100.0,
        dram_util=dram,
        tensor_util=tensor,
        graphics_util=busy,
        nvlink_rx_mib_s=link / 2,
        nvlink_tx_mib_s=link,
        compute_capability="10.3",
    )


@pytest.mark.parametrize(
    ("one", "label"),
    [
        (gpu(dram=88.7, tensor=0.0, busy=99.6), "HBM"),
        (gpu(dram=14.0, tensor=66.0, busy=79.0), "compute"),
        (gpu(link=500_000.0), "link"),
        (gpu(), "host or latency"),
        (gpu(dram=70.0, tensor=55.0), "mixed"),
        (gpu(dram=45.0), "mixed"),
        (gpu(busy=60.0), "mixed"),
        (gpu(dram=0.0, tensor=0.0, busy=1.0), "idle"),
        (gpu(dram=None), "unknown"),
        (gpu(tensor=None), "unknown"),
    ],
)
def test_the_label_follows_from_the_counters(one: GpuReading, label: str) -> None:
    assert bound((one,) * 8).label == label


def test_the_reason_holds_the_numbers() -> None:
    assert bound((gpu(link=45_776.0),)).reason == "dram 9, tensor 7, nvlink 5, busy 97 %"


def test_low_power_and_full_utilisation_alone_decide_nothing() -> None:
    """A pure copy and a spinning kernel look the same to NVML."""
    blind = replace(gpu(dram=None, tensor=None), power_w=401.0, power_limit_w=700.0)
    assert bound((blind,)) == bound((replace(blind, power_w=690.0),))
    assert bound((blind,)).reason == "no GPM counters"


def test_a_lost_gpu_says_nothing_of_the_others() -> None:
    lost = replace(gpu(dram=None, tensor=None), lost=True)
    assert bound((gpu(), lost)) == bound((gpu(),))
    assert bound((lost,)).label == "unknown"
    assert bound(()).reason == "no GPU reading"


def test_a_link_without_a_known_peak_has_no_share() -> None:
    assert link_share(replace(gpu(link=10_000.0), compute_capability="12.0")) is None
    assert link_share(replace(gpu(), nvlink_rx_mib_s=None, nvlink_tx_mib_s=None)) is None
    assert link_share(gpu(link=858_306.9)) == pytest.approx(100.0, abs=0.1)


def test_a_copy_between_two_gpus_is_bound_by_its_link() -> None:
    """Read off two H200s while torch copied 365 GiB/s from one to the other: NVML's own utilisation said 99 and 0 %."""
    one = replace(
        gpu(dram=8.16, tensor=0.0, busy=0.0),
        compute_capability="9.0",
        util=99.0,
        nvlink_rx_mib_s=0.0,
        nvlink_tx_mib_s=383_596.24,
    )
    other = replace(one, util=0.0, graphics_util=0.05, nvlink_rx_mib_s=383_610.02, nvlink_tx_mib_s=0.0)
    assert bound((one, other)).label == "link"
    assert bound((one, other)).reason == "dram 8, tensor 0, nvlink 89, busy 0 %"
