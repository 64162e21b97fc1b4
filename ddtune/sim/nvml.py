# ruff: noqa: N802, N803, N816 - the names are pynvml's
"""NVML of eight simulated B300s, under pynvml's names.

Its source is sent to the collector in the place of nvidia-ml-py's, so it stands alone. Readings come from the file that
the engine writes below the folder in ``DDTUNE_SIM_ROOT``; without a fresh one the GPUs idle.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

NVML_SUCCESS = 0
NVML_ERROR_UNINITIALIZED = 1
NVML_ERROR_INVALID_ARGUMENT = 2
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_NO_PERMISSION = 4
NVML_ERROR_NOT_FOUND = 6
NVML_ERROR_LIBRARY_NOT_FOUND = 12
NVML_ERROR_GPU_IS_LOST = 15
NVML_TEMPERATURE_GPU = 0
NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
NVML_VOLATILE_ECC = 0
NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS = 208
NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS = 215
NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3
LINKS = 18
NVML_CLOCK_GRAPHICS = 0
NVML_CLOCK_SM = 1
NVML_CLOCK_MEM = 2
NVML_CLOCK_VIDEO = 3
nvmlClocksEventReasonGpuIdle = 0x1
nvmlClocksEventReasonApplicationsClocksSetting = 0x2
nvmlClocksThrottleReasonSwPowerCap = 0x4
nvmlClocksThrottleReasonHwSlowdown = 0x8
nvmlClocksEventReasonSyncBoost = 0x10
nvmlClocksEventReasonSwPowerCap = 0x4
nvmlClocksEventReasonSwThermalSlowdown = 0x20
nvmlClocksThrottleReasonHwThermalSlowdown = 0x40
nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 0x80
NVML_GPM_METRIC_GRAPHICS_UTIL = 1
NVML_GPM_METRIC_SM_UTIL = 2
NVML_GPM_METRIC_SM_OCCUPANCY = 3
NVML_GPM_METRIC_INTEGER_UTIL = 4
NVML_GPM_METRIC_ANY_TENSOR_UTIL = 5
NVML_GPM_METRIC_DFMA_TENSOR_UTIL = 6
NVML_GPM_METRIC_HMMA_TENSOR_UTIL = 7
NVML_GPM_METRIC_IMMA_TENSOR_UTIL = 9
NVML_GPM_METRIC_DRAM_BW_UTIL = 10
NVML_GPM_METRIC_FP64_UTIL = 11
NVML_GPM_METRIC_FP32_UTIL = 12
NVML_GPM_METRIC_FP16_UTIL = 13
NVML_GPM_METRIC_PCIE_TX_PER_SEC = 20
NVML_GPM_METRIC_PCIE_RX_PER_SEC = 21
NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC = 60
NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC = 61
NVML_GPM_METRIC_MAX = 477
NVML_GPM_METRICS_GET_VERSION = 1
NVML_GPM_SUPPORT_VERSION = 1

NAME = "NVIDIA B300 SXM6 AC"
POWER_LIMIT_MW = 1_100_000
MEMORY_MIB = 275_040
BUS_IDS = tuple(f"00000000:{bus:02X}:00.0" for bus in (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF))
STALE_S = 3.0
IDLE: dict[str, float] = {
    "power_w": 168.0,
    "util": 0.0,
    "memory_used_mib": 4.0,
    "temperature_c": 33.0,
    "sm_clock_mhz": 1920.0,
}
_METRICS = {
    NVML_GPM_METRIC_GRAPHICS_UTIL: "graphics_util",
    NVML_GPM_METRIC_SM_UTIL: "sm_util",
    NVML_GPM_METRIC_ANY_TENSOR_UTIL: "tensor_util",
    NVML_GPM_METRIC_DRAM_BW_UTIL: "dram_util",
    NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC: "nvlink_rx_mib_s",
    NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC: "nvlink_tx_mib_s",
}
_TEXTS = {
    NVML_ERROR_UNINITIALIZED: "Uninitialized",
    NVML_ERROR_INVALID_ARGUMENT: "Invalid Argument",
    NVML_ERROR_NOT_SUPPORTED: "Not Supported",
}


class NVMLError(Exception):
    """An error code of NVML's, in ``value``."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return _TEXTS.get(self.value, f"NVML Error with code {self.value}")


class Device:
    """A GPU's handle."""

    def __init__(self, index: int) -> None:
        self.index = index


class Sample:
    """A GPM sample: one GPU's reading at one moment."""

    def __init__(self) -> None:
        self.reading: dict[str, float] | None = None


class Record:
    """A structure with named fields, as pynvml returns them."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class c_nvmlGpmMetric_t:  # noqa: N801 - pynvml's name
    """One metric that is asked for and its answer."""

    def __init__(self) -> None:
        self.metricId = 0
        self.nvmlReturn = NVML_SUCCESS
        self.value = 0.0


class c_nvmlGpmMetricsGet_t:  # noqa: N801 - pynvml's name
    """What nvmlGpmMetricsGet is asked: two samples and up to NVML_GPM_METRIC_MAX metrics."""

    def __init__(self) -> None:
        self.version = 0
        self.numMetrics = 0
        self.sample1: Sample | None = None
        self.sample2: Sample | None = None
        self.metrics = [c_nvmlGpmMetric_t() for _ in range(NVML_GPM_METRIC_MAX)]


_ready = False


def _device(handle: Device) -> int:
    if not _ready:
        raise NVMLError(NVML_ERROR_UNINITIALIZED)
    if not isinstance(handle, Device):
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    return handle.index


def _reading(index: int) -> dict[str, float]:
    path = os.path.join(os.environ.get("DDTUNE_SIM_ROOT", "/nonexistent"), "run", "sim", "gpus.json")
    try:
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
        if abs(time.time() - state["at"]) <= STALE_S:
            return {**IDLE, **{key: value for key, value in state["gpus"][index].items() if value is not None}}
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return dict(IDLE)
    return dict(IDLE)


def _withheld() -> dict[str, Any]:
    """What the host does not give, as a test wrote it: ``lost`` (indexes) and ``gpm`` (false)."""
    path = os.path.join(os.environ.get("DDTUNE_SIM_ROOT", "/nonexistent"), "run", "sim", "withheld.json")
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return {}


def nvmlInit() -> None:
    """Begins the use of the library."""
    global _ready
    _ready = True


def nvmlShutdown() -> None:
    """Ends the use of the library."""
    global _ready
    _ready = False


def nvmlDeviceGetCount() -> int:
    if not _ready:
        raise NVMLError(NVML_ERROR_UNINITIALIZED)
    return len(BUS_IDS)


def nvmlDeviceGetHandleByIndex(index: int) -> Device:
    if not 0 <= index < nvmlDeviceGetCount():
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    return Device(index)


def nvmlDeviceGetUUID(handle: Device) -> str:
    return f"GPU-b3000000-51b0-4d5e-a{_device(handle):03d}-0000000000b3"


def nvmlDeviceGetPciInfo(handle: Device) -> Record:
    bus_id = BUS_IDS[_device(handle)]
    domain, bus, rest = bus_id.split(":")
    return Record(
        busId=bus_id,
        busIdLegacy=bus_id[4:],
        domain=int(domain, 16),
        bus=int(bus, 16),
        device=int(rest.split(".")[0], 16),
        pciDeviceId=0x318210DE,
        pciSubSystemId=0,
    )


def nvmlDeviceGetName(handle: Device) -> str:
    _device(handle)
    return NAME


def nvmlDeviceGetPowerUsage(handle: Device) -> int:
    """Milliwatts. Raises NVMLError for a GPU that is lost."""
    index = _device(handle)
    if index in _withheld().get("lost", ()):
        raise NVMLError(NVML_ERROR_GPU_IS_LOST)
    return round(_reading(index)["power_w"] * 1000)


def nvmlDeviceGetEnforcedPowerLimit(handle: Device) -> int:
    """Milliwatts."""
    _device(handle)
    return POWER_LIMIT_MW


def nvmlDeviceGetUtilizationRates(handle: Device) -> Record:
    """Percent."""
    reading = _reading(_device(handle))
    return Record(gpu=round(reading["util"]), memory=round(reading.get("dram_util", 0.0)))


def nvmlDeviceGetMemoryInfo(handle: Device, version: int | None = None) -> Record:
    """Bytes."""
    used = round(_reading(_device(handle))["memory_used_mib"])
    fields = {"total": MEMORY_MIB << 20, "used": used << 20, "free": (MEMORY_MIB - used) << 20}
    return Record(**fields) if version is None else Record(version=version, reserved=0, **fields)


def nvmlDeviceGetTemperature(handle: Device, sensor: int) -> int:
    """Degrees Celsius."""
    index = _device(handle)
    if sensor != NVML_TEMPERATURE_GPU:
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    return round(_reading(index)["temperature_c"])


def nvmlDeviceGetClockInfo(handle: Device, type: int) -> int:  # noqa: A002 - pynvml's name
    """MHz."""
    index = _device(handle)
    if type == NVML_CLOCK_MEM:
        return 3996
    return round(_reading(index)["sm_clock_mhz"])


def nvmlDeviceGetCurrentClocksEventReasons(handle: Device) -> int:
    """A set of bits."""
    return 0 if _reading(_device(handle))["util"] > 0 else nvmlClocksEventReasonGpuIdle


def nvmlDeviceGetCurrentClocksThrottleReasons(handle: Device) -> int:
    """A set of bits, by its older name."""
    return nvmlDeviceGetCurrentClocksEventReasons(handle)


def _errors(handle: Device) -> dict[str, int]:
    """What a test has this GPU count: ``ecc`` and ``nvlink``."""
    return dict(_withheld().get("errors", {}).get(str(_device(handle)), {}))


def nvmlDeviceGetTotalEccErrors(handle: Device, errorType: int, counterType: int) -> int:
    """Memory errors since the driver was loaded."""
    counted = (errorType, counterType) == (NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC)
    return _errors(handle).get("ecc", 0) if counted else 0


def nvmlDeviceGetFieldValues(handle: Device, fieldIds: list[Any]) -> list[Record]:
    """The counters of NVLink 5, link by link; the first link has all the errors."""
    errors = _errors(handle).get("nvlink", 0)
    return [_field(one, errors) for one in fieldIds]


def _field(asked: Any, errors: int) -> Record:
    field, link = asked if isinstance(asked, tuple) else (asked, None)
    counted = (NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS, NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS)
    if field not in counted or link is None or link >= LINKS:
        return Record(nvmlReturn=NVML_ERROR_NOT_SUPPORTED, valueType=0, value=Record())
    found = errors if (field, link) == (NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS, 0) else 0
    value = Record(ullVal=found)
    return Record(nvmlReturn=NVML_SUCCESS, valueType=NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, value=value)


def nvmlDeviceGetCudaComputeCapability(handle: Device) -> tuple[int, int]:
    _device(handle)
    return 10, 3


def nvmlGpmQueryDeviceSupport(device: Device) -> Record:
    _device(device)
    return Record(version=NVML_GPM_SUPPORT_VERSION, isSupportedDevice=int(_withheld().get("gpm", True)))


def nvmlGpmSampleAlloc() -> Sample:
    return Sample()


def nvmlGpmSampleGet(device: Device, gpmSample: Sample) -> Sample:
    gpmSample.reading = _reading(_device(device))
    return gpmSample


def nvmlGpmMetricsGet(metricsGet: c_nvmlGpmMetricsGet_t) -> c_nvmlGpmMetricsGet_t:
    """Fills in the metrics asked for from the later sample; those that the engine does not tell are not supported."""
    if metricsGet.sample1 is None or metricsGet.sample2 is None or metricsGet.sample2.reading is None:
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    reading = metricsGet.sample2.reading
    for metric in metricsGet.metrics[: metricsGet.numMetrics]:
        name = _METRICS.get(metric.metricId)
        if name is None:
            metric.nvmlReturn, metric.value = NVML_ERROR_NOT_SUPPORTED, 0.0
        else:
            metric.nvmlReturn, metric.value = NVML_SUCCESS, float(reading.get(name, 0.0))
    return metricsGet
