"""The best source of GPU readings that this host has, and the next best when it fails."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any, Optional, Protocol

from . import clock
from .collect_nvml import Nvml
from .collect_smi import Smi

_RETRY_S = 10.0
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.\d")


class Source(Protocol):
    """Where GPU readings come from. ``sample`` may block for as long as the driver does."""

    via: str

    def sample(self) -> list[dict[str, Any]]: ...

    def close(self) -> None: ...


class Gpus:
    """Lines of kind ``gpus``. Every failure of a source falls to the next one, and all are tried again later."""

    def __init__(self, tick_s: float, root: str = "") -> None:
        self._tick_s = tick_s
        self._root = root
        self._source: Optional[Source] = None
        self._retry_at = 0.0
        self._error = "there was no try yet"

    def line(self) -> dict[str, Any]:
        """One line, whatever happens; a source that blocks takes the calling thread with it."""
        if self._source is None and time.monotonic() >= self._retry_at:
            self._open()
        found = {"t": "gpus", "via": "none", "gpus": [], "present": bound(self._root)}
        if self._source is not None:
            try:
                gpus = self._source.sample()
                return {**found, "at": clock.wall(), "via": self._source.via, "gpus": gpus}
            except Exception as error:  # noqa: BLE001 (pynvml is not ours and raises what it likes)
                self._error = f"{self._source.via}: {error}"
                self.close()
        return {**found, "at": clock.wall(), "error": self._error}

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
        self._source = None

    def end(self) -> None:
        """End what would go on without us. NVML ends with the process, and asking it to may block."""
        if isinstance(self._source, Smi):
            self._source.close()

    def _open(self) -> None:
        nvml, no_nvml = _tried(Nvml)
        smi, no_smi = (None, None) if nvml else _tried(lambda: Smi(self._tick_s, len(bound(self._root))))
        self._source = nvml or smi
        self._error = f"nvml: {no_nvml}; nvidia-smi: {no_smi}"
        self._retry_at = time.monotonic() + _RETRY_S


def bound(root: str = "") -> list[str]:
    """PCI addresses of the GPUs that the driver is bound to: a lost one stays in this list."""
    folder = f"{root}/sys/bus/pci/drivers/nvidia"
    try:
        return sorted(name for name in os.listdir(folder) if _ADDRESS.fullmatch(name) and _is_gpu(folder, name))
    except OSError:
        return []


def _is_gpu(folder: str, name: str) -> bool:
    try:
        with open(f"{folder}/{name}/class", encoding="ascii") as file:
            return file.read().startswith("0x03")
    except (OSError, ValueError):
        return False


def _tried(make: Callable[[], Source]) -> tuple[Optional[Source], Optional[Exception]]:
    try:
        return make(), None
    except Exception as error:  # noqa: BLE001 (as above; an absent driver is an ordinary case)
        return None, error
