"""Xids as NVML reports them, for a host whose kernel log may not be read."""

from __future__ import annotations

import importlib
import time
from typing import Any, Optional

from . import clock

_WAIT_MS = 1000
_AGAIN_S = 60.0


class XidEvents:
    """Lines of kind ``xid``. Without a driver, or with one that has no events, there are none."""

    def __init__(self) -> None:
        self._api: Any = None
        self._events: Any = None

    def lines(self) -> list[dict[str, Any]]:
        """What comes within a second; waits longer before it tries again where it cannot be asked."""
        if self._events is None and not self._open():
            time.sleep(_AGAIN_S)
            return []
        try:
            data = self._api.nvmlEventSetWait_v2(self._events, _WAIT_MS)
            if data.eventType != self._api.nvmlEventTypeXidCriticalError:
                return []
            return [{"t": "xid", "at": clock.wall(), "number": int(data.eventData), "pci": self._pci(data.nvmlDevice)}]
        except Exception as error:  # noqa: BLE001 (pynvml is not ours; waiting in vain is an error to it)
            if getattr(error, "value", None) != getattr(self._api, "NVML_ERROR_TIMEOUT", 10):
                self._events = None
                time.sleep(_AGAIN_S)
            return []

    def _open(self) -> bool:
        try:
            api: Any = importlib.import_module("pynvml")
            api.nvmlInit()
            events = api.nvmlEventSetCreate()
            registered = [self._register(api, index, events) for index in range(api.nvmlDeviceGetCount())]
        except Exception:  # noqa: BLE001 (as above; the readings say what is wrong with the driver)
            return False
        self._api, self._events = api, events
        return any(registered)

    def _register(self, api: Any, index: int, events: Any) -> bool:
        try:
            api.nvmlDeviceRegisterEvents(
                api.nvmlDeviceGetHandleByIndex(index), api.nvmlEventTypeXidCriticalError, events
            )
        except api.NVMLError:
            return False
        return True

    def _pci(self, device: Any) -> Optional[str]:
        try:
            found = self._api.nvmlDeviceGetPciInfo(device).busId
        except self._api.NVMLError:
            return None
        return found.decode(errors="replace") if isinstance(found, bytes) else str(found)
