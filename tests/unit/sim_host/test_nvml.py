"""The stand-in for NVML has pynvml's names, values and shapes, and tells what the engine draws."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pynvml
import pytest

from ddtune.onhost.collect_nvml import Nvml
from ddtune.sim import nvml

DRAWN = {
    "power_w": 412.5,
    "util": 100,
    "memory_used_mib": 240000.0,
    "temperature_c": 39.6,
    "sm_clock_mhz": 1920.0,
    "dram_util": 31.5,
    "tensor_util": 7.25,
    "graphics_util": 97.5,
    "sm_util": 48.0,
    "nvlink_rx_mib_s": 21107.0,
    "nvlink_tx_mib_s": 20673.0,
}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("DDTUNE_SIM_ROOT", str(tmp_path))
    (tmp_path / "run/sim").mkdir(parents=True)
    nvml.nvmlInit()
    return nvml


def _draw(root: Path, at: float) -> None:
    gpus = [{**DRAWN, "power_w": DRAWN["power_w"] + index} for index in range(8)]
    (root / "run/sim/gpus.json").write_text(json.dumps({"at": at, "gpus": gpus}))


def test_names_values_and_parameters_are_pynvmls() -> None:
    names = [name for name in vars(nvml) if name.startswith(("nvml", "NVML"))]
    assert len(names) > 50
    for name in names:
        mine, real = getattr(nvml, name), getattr(pynvml, name)
        if inspect.isfunction(mine):
            assert list(inspect.signature(mine).parameters) == list(inspect.signature(real).parameters), name
        elif not inspect.isclass(mine):
            assert mine == real, name
    for name in ("c_nvmlGpmMetricsGet_t", "c_nvmlGpmMetric_t"):
        real_fields = {field[0] for field in getattr(pynvml, name)._fields_}
        assert set(vars(getattr(nvml, name)())) <= real_fields


def test_tells_what_the_engine_draws(api: Any, tmp_path: Path) -> None:
    _draw(tmp_path, time.time())
    assert api.nvmlDeviceGetCount() == 8
    handle = api.nvmlDeviceGetHandleByIndex(3)
    assert api.nvmlDeviceGetName(handle) == "NVIDIA B300 SXM6 AC"
    assert api.nvmlDeviceGetPowerUsage(handle) == 415_500
    assert api.nvmlDeviceGetEnforcedPowerLimit(handle) == 1_100_000
    assert api.nvmlDeviceGetUtilizationRates(handle).gpu == 100
    memory = api.nvmlDeviceGetMemoryInfo(handle)
    assert memory.used == 240_000 << 20
    assert memory.used + memory.free == memory.total
    assert api.nvmlDeviceGetTemperature(handle, api.NVML_TEMPERATURE_GPU) == 40
    assert api.nvmlDeviceGetCudaComputeCapability(handle) == (10, 3)
    assert api.nvmlDeviceGetCurrentClocksEventReasons(handle) == 0
    handles = [api.nvmlDeviceGetHandleByIndex(index) for index in range(8)]
    assert len({api.nvmlDeviceGetUUID(one) for one in handles}) == 8
    assert len({api.nvmlDeviceGetPciInfo(one).busId for one in handles}) == 8


def test_gpm_gives_what_is_known_and_refuses_the_rest(api: Any, tmp_path: Path) -> None:
    _draw(tmp_path, time.time())
    handle = api.nvmlDeviceGetHandleByIndex(0)
    assert api.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice == 1
    query = api.c_nvmlGpmMetricsGet_t()
    query.version, query.numMetrics = api.NVML_GPM_METRICS_GET_VERSION, 3
    query.sample1, query.sample2 = api.nvmlGpmSampleAlloc(), api.nvmlGpmSampleAlloc()
    with pytest.raises(api.NVMLError) as caught:
        api.nvmlGpmMetricsGet(query)
    assert caught.value.value == pynvml.NVML_ERROR_INVALID_ARGUMENT
    for sample in (query.sample1, query.sample2):
        api.nvmlGpmSampleGet(handle, sample)
    wanted = (pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL, pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, 13)
    for metric, number in zip(query.metrics, wanted, strict=False):
        metric.metricId = number
    api.nvmlGpmMetricsGet(query)
    assert [metric.nvmlReturn for metric in query.metrics[:3]] == [0, 0, pynvml.NVML_ERROR_NOT_SUPPORTED]
    assert [metric.value for metric in query.metrics[:2]] == [31.5, 20673.0]


def read(monkeypatch: pytest.MonkeyPatch, api: Any) -> list[dict[str, Any]]:
    monkeypatch.setitem(sys.modules, "pynvml", api)
    return Nvml().sample()


def test_the_collector_reads_errors_as_links_of_both_generations_count_them(
    api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = {"errors": {"3": {"ecc": 2, "nvlink": 12}}}
    (tmp_path / "run/sim/withheld.json").write_text(json.dumps(counted))
    found = read(monkeypatch, api)
    assert [(one["ecc_uncorrected"], one["nvlink_errors"]) for one in found[2:4]] == [(0, 0), (2, 12)]

    def totals(_handle: Any, fields: list[Any]) -> list[Any]:
        known = {
            pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL: 7,
            pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL: 1,
        }
        answers = (pynvml.NVML_SUCCESS if one in known else pynvml.NVML_ERROR_NOT_SUPPORTED for one in fields)
        return [
            api.Record(
                nvmlReturn=said, valueType=pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, value=api.Record(uiVal=known.get(one))
            )
            for one, said in zip(fields, answers, strict=True)
        ]

    monkeypatch.setattr(api, "nvmlDeviceGetFieldValues", totals)
    assert {one["nvlink_errors"] for one in read(monkeypatch, api)} == {8}
    # A GPU without links, and a library that does not know the calls.
    monkeypatch.setattr(pynvml, "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", -1)
    monkeypatch.setattr(pynvml, "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", -1)
    assert {one["nvlink_errors"] for one in read(monkeypatch, api)} == {None}

    # An H200 supports none of the fields and counts by the older call.
    def older(_handle: Any, link: int, counter: int) -> int:
        counted = {pynvml.NVML_NVLINK_ERROR_DL_REPLAY: 3, pynvml.NVML_NVLINK_ERROR_DL_RECOVERY: 1}
        if link > 1:
            raise api.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return counted[counter]

    monkeypatch.setattr(api, "nvmlDeviceGetNvLinkErrorCounter", older, raising=False)
    assert {one["nvlink_errors"] for one in read(monkeypatch, api)} == {8}
    monkeypatch.delattr(api, "nvmlDeviceGetFieldValues")
    assert {one["nvlink_errors"] for one in read(monkeypatch, api)} == {8}
    monkeypatch.delattr(api, "nvmlDeviceGetNvLinkErrorCounter")
    monkeypatch.delattr(api, "nvmlDeviceGetTotalEccErrors")
    assert {(one["ecc_uncorrected"], one["nvlink_errors"]) for one in read(monkeypatch, api)} == {(None, None)}


@pytest.mark.parametrize("age_s", [60.0, None])
def test_idles_without_a_fresh_reading(api: Any, tmp_path: Path, age_s: float | None) -> None:
    if age_s is not None:
        _draw(tmp_path, time.time() - age_s)
    handle = api.nvmlDeviceGetHandleByIndex(0)
    assert 100_000 < api.nvmlDeviceGetPowerUsage(handle) < 250_000
    assert api.nvmlDeviceGetUtilizationRates(handle).gpu == 0
    assert api.nvmlDeviceGetCurrentClocksEventReasons(handle) == pynvml.nvmlClocksEventReasonGpuIdle


def test_is_uninitialised_until_it_is_begun(api: Any) -> None:
    api.nvmlShutdown()
    with pytest.raises(api.NVMLError) as caught:
        api.nvmlDeviceGetCount()
    assert caught.value.value == pynvml.NVML_ERROR_UNINITIALIZED


def test_stands_alone_in_a_bare_interpreter() -> None:
    code = f"exec(compile(open({nvml.__file__!r}).read(), 'pynvml', 'exec')); nvmlInit(); print(nvmlDeviceGetCount())"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "8\n"
