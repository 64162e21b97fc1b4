"""GPU readings through NVML and GPM, with a ``pynvml`` that the operator sends along.

Called of it, and therefore what a stand-in must answer: ``nvmlInit``, ``nvmlShutdown``, ``nvmlDeviceGetCount``,
``nvmlDeviceGetHandleByIndex``, ``nvmlDeviceGetUUID``, ``nvmlDeviceGetPciInfo`` (``busId``), ``nvmlDeviceGetName``,
``nvmlDeviceGetCudaComputeCapability``, ``nvmlDeviceGetPowerUsage``, ``nvmlDeviceGetEnforcedPowerLimit``,
``nvmlDeviceGetUtilizationRates`` (``gpu``), ``nvmlDeviceGetMemoryInfo`` (``used``, ``total``),
``nvmlDeviceGetTemperature``, ``nvmlDeviceGetClockInfo``, ``nvmlDeviceGetCurrentClocksEventReasons``, the ``nvmlGpm…``
calls with ``c_nvmlGpmMetricsGet_t``, and ``NVMLError`` with ``value``. ``nvmlDeviceGetMigMode``,
``nvmlDeviceGetTotalEccErrors``, ``nvmlDeviceGetFieldValues`` and ``nvmlDeviceGetNvLinkErrorCounter`` may be missing. A
call that fails is a value that is not available.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any, Optional

GPU_IS_LOST = 15
_RECOVERY_ACTION = 230
_RECOVERIES = ("none", "reset", "reboot", "drain P2P", "drain and reset", "recover IMEX domain", "bus reset", "reboot")
_SELDOM = 20
_UNCORRECTED = 1
_SINCE_DRIVER_LOAD = 0
# Field ids of nvidia-ml-py 13: replays and recoveries over all links, which NVLink 5 tells link by link instead, as
# receive errors and recoveries. An H200 (driver 580) supports neither and answers the older call, link by link.
_LINKS = 18
_LINK_TOTALS = [52, 59]
_BY_LINK = [(field, link) for link in range(_LINKS) for field in (208, 215)]
_LINK_COUNTERS = (0, 1)
_VALUES = {1: "uiVal", 2: "ulVal", 3: "ullVal"}
_TEMPERATURE_GPU = 0
_CLOCK_SM = 1
_MIB = 1048576.0
GPM_METRICS = {
    "graphics_util": 1,
    "sm_util": 2,
    "tensor_util": 5,
    "dram_util": 10,
    "nvlink_rx_mib_s": 60,
    "nvlink_tx_mib_s": 61,
}

Reading = dict[str, Any]


class Nvml:
    """All GPUs of the host. Raises whatever ``pynvml`` raises when there is no driver."""

    via = "nvml"

    def __init__(self) -> None:
        self._api: Any = importlib.import_module("pynvml")
        self._api.nvmlInit()
        count = self._api.nvmlDeviceGetCount()
        self._gpus = [_Gpu(self._api, index) for index in range(count)]

    def sample(self) -> list[Reading]:
        """One reading for each GPU, in NVML's order; a GPU that fell off the bus keeps its identity.

        Raises OSError when none says anything, as after the driver was unloaded.
        """
        found = [gpu.sample() for gpu in self._gpus]
        if found and not any(one["lost"] or one["power_w"] is not None or one["memory_total_mib"] for one in found):
            raise OSError("no GPU answers any more")
        return found

    def close(self) -> None:
        try:
            self._api.nvmlShutdown()
        except self._api.NVMLError:
            return


class _Gpu:
    def __init__(self, api: Any, index: int) -> None:
        self._api = api
        self._lost = False
        self._handle: Any = self._get(lambda: api.nvmlDeviceGetHandleByIndex(index))
        handle = self._handle
        capability = self._get(lambda: api.nvmlDeviceGetCudaComputeCapability(handle))
        self._identity: Reading = {
            "index": index,
            "uuid": _text(self._get(lambda: api.nvmlDeviceGetUUID(handle))),
            "pci": _text(self._get(lambda: api.nvmlDeviceGetPciInfo(handle).busId)),
            "name": _text(self._get(lambda: api.nvmlDeviceGetName(handle))),
            "compute_capability": "{}.{}".format(*capability) if capability else None,
        }
        self._gpm = _Gpm.of(api, handle)
        self._seldom: Reading = {}
        self._taken = 0

    def sample(self) -> Reading:
        api, handle = self._api, self._handle
        self._lost = handle is None
        power = self._get(lambda: api.nvmlDeviceGetPowerUsage(handle))
        limit = self._get(lambda: api.nvmlDeviceGetEnforcedPowerLimit(handle))
        memory = self._get(lambda: api.nvmlDeviceGetMemoryInfo(handle))
        reading = dict(
            self._identity,
            power_w=None if power is None else power / 1000.0,
            power_limit_w=None if limit is None else limit / 1000.0,
            util=self._get(lambda: api.nvmlDeviceGetUtilizationRates(handle).gpu),
            memory_used_mib=None if memory is None else round(memory.used / _MIB, 1),
            memory_total_mib=None if memory is None else round(memory.total / _MIB, 1),
            temperature_c=self._get(lambda: api.nvmlDeviceGetTemperature(handle, _TEMPERATURE_GPU)),
            sm_clock_mhz=self._get(lambda: api.nvmlDeviceGetClockInfo(handle, _CLOCK_SM)),
            throttle=self._get(self._event_reasons),
        )
        reading.update(self._gpm.sample() if self._gpm and not self._lost else dict.fromkeys(GPM_METRICS))
        if self._taken % _SELDOM == 0:
            mig = self._get(lambda: api.nvmlDeviceGetMigMode(handle))
            self._seldom = {
                "mig": None if mig is None else bool(mig[0]),
                "recovery": self._get(self._recovery),
                "ecc_uncorrected": self._get(
                    lambda: api.nvmlDeviceGetTotalEccErrors(handle, _UNCORRECTED, _SINCE_DRIVER_LOAD)
                ),
                "nvlink_errors": self._get(self._nvlink_errors),
            }
        self._taken += 1
        reading.update(self._seldom)
        reading["lost"] = self._lost
        return reading

    def _recovery(self) -> Optional[str]:
        (found,) = self._api.nvmlDeviceGetFieldValues(self._handle, [_RECOVERY_ACTION])
        number = found.value.uiVal
        return (_RECOVERIES[number] if number < len(_RECOVERIES) else "unknown") if found.nvmlReturn == 0 else None

    def _nvlink_errors(self) -> Optional[int]:
        counted = self._in_fields(_LINK_TOTALS) or self._in_fields(_BY_LINK) or self._by_older_call()
        return sum(counted) if counted else None

    def _in_fields(self, fields: list[Any]) -> list[int]:
        answers = self._get(lambda: self._api.nvmlDeviceGetFieldValues(self._handle, fields)) or []
        return [int(getattr(one.value, _VALUES[one.valueType])) for one in answers if one.nvmlReturn == 0]

    def _by_older_call(self) -> list[int]:
        def count(link: int, which: int) -> Any:
            return self._get(lambda: self._api.nvmlDeviceGetNvLinkErrorCounter(self._handle, link, which))

        found = [count(link, which) for link in range(_LINKS) for which in _LINK_COUNTERS]
        return [int(one) for one in found if one is not None]

    def _event_reasons(self) -> Any:
        current = getattr(self._api, "nvmlDeviceGetCurrentClocksEventReasons", None)
        return (current or self._api.nvmlDeviceGetCurrentClocksThrottleReasons)(self._handle)

    def _get(self, call: Callable[[], Any]) -> Any:
        if self._lost:
            return None
        try:
            return call()
        except self._api.NVMLError as error:
            self._lost = getattr(error, "value", None) == GPU_IS_LOST
            return None
        except (AttributeError, LookupError, ValueError, TypeError):
            return None  # An older driver or library does not know this call.


class _Gpm:
    """Performance metrics between two samples of one GPU. The first call has nothing to compare with."""

    def __init__(self, api: Any, handle: Any) -> None:
        self._api = api
        self._handle = handle
        self._samples = (api.nvmlGpmSampleAlloc(), api.nvmlGpmSampleAlloc())
        self._query = api.c_nvmlGpmMetricsGet_t()
        self._taken = 0

    @classmethod
    def of(cls, api: Any, handle: Any) -> Optional[_Gpm]:
        """None on a GPU or driver without GPM."""
        try:
            if handle is None or not api.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
                return None
            return cls(api, handle)
        except (api.NVMLError, AttributeError):
            return None

    def sample(self) -> Reading:
        nothing: Reading = dict.fromkeys(GPM_METRICS)
        newest, previous = self._samples[self._taken % 2], self._samples[(self._taken + 1) % 2]
        try:
            self._api.nvmlGpmSampleGet(self._handle, newest)
            self._taken += 1
            return self._between(previous, newest) if self._taken > 1 else nothing
        except self._api.NVMLError:
            self._taken = 0
            return nothing

    def _between(self, first: Any, second: Any) -> Reading:
        query = self._query
        query.version = getattr(self._api, "NVML_GPM_METRICS_GET_VERSION", 1)
        query.numMetrics = len(GPM_METRICS)
        query.sample1, query.sample2 = first, second
        for slot, metric in enumerate(GPM_METRICS.values()):
            query.metrics[slot].metricId = metric
        self._api.nvmlGpmMetricsGet(query)
        return {
            name: round(metric.value, 2) if metric.nvmlReturn == 0 and math.isfinite(metric.value) else None
            for name, metric in zip(GPM_METRICS, query.metrics)
        }


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
