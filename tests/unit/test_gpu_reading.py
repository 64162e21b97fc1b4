from __future__ import annotations

from typing import Any

import pytest

from ddtune.gpu.model import GpuReading
from ddtune.gpu.reading import arch, by_pci, from_line, joules_per_token, node_power_w, throttle_names


def _gpu(index: int = 0, **changed: Any) -> GpuReading:
    return GpuReading(index, f"GPU-{index}", f"00000000:1{index}:00.0", "x", **changed)


def test_what_is_missing_is_none_and_zero_stays_zero() -> None:
    line = {"gpus": [{"index": 0, "uuid": "u", "power_w": 0, "util": float("nan"), "memory_used_mib": "7"}, 5]}
    (gpu,) = from_line(line)
    assert (gpu.power_w, gpu.util, gpu.memory_used_mib, gpu.dram_util, gpu.throttle) == (0, None, None, None, None)
    assert from_line({}) == from_line({"gpus": None}) == ()


@pytest.mark.parametrize(
    ("reasons", "names"),
    [
        (0, ()),
        (1, ()),
        (0x44, ("power_cap", "hw_thermal")),
        (0x8004, ("power_cap", "0x8000")),
        (["sw_thermal"], ("sw_thermal",)),
        (None, None),
        ("x", None),
    ],
)
def test_throttle_reasons_have_names(reasons: Any, names: Any) -> None:
    assert throttle_names(reasons) == names


def test_the_architecture_is_named_as_compilers_do() -> None:
    assert arch(_gpu(compute_capability="10.3")) == "sm_103"
    assert arch(_gpu()) is None


def test_a_part_never_passes_for_the_whole() -> None:
    assert node_power_w([_gpu(power_w=1.0), _gpu(1, power_w=2.5)]) == 3.5
    assert node_power_w([_gpu(power_w=1.0), _gpu(1)]) is None
    assert node_power_w([_gpu(power_w=1.0), _gpu(1, lost=True)]) == 1.0
    assert node_power_w([]) is None


def test_energy_for_each_token() -> None:
    assert joules_per_token(3200.0, 1600.0) == 2.0
    assert joules_per_token(3200.0, 0.0) is None
    assert joules_per_token(None, 5.0) is None


def test_the_kernels_addresses_find_the_gpu() -> None:
    assert by_pci([_gpu(0), _gpu(3), GpuReading(5, "u", "", "x")]) == {"0000:10:00": 0, "0000:13:00": 3}
