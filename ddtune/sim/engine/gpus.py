"""What the eight GPUs draw, as a file that a stand-in for NVML reads."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddtune.sim.engine.axes import Axes
from ddtune.sim.engine.vocabulary import dice

COUNT = 8
EMPTY_MIB, WEIGHTS_MIB = 612.0, 84_480.0
TOTAL_MIB = 281_600.0
STEP_S = 0.5


@dataclass(frozen=True)
class Load:
    """What the GPUs do: ``busy`` is the share of time with a batch, ``running`` its size, ``tokens_per_s`` its output.

    ``memory`` is how much of the final memory is taken: 0 empty, 1 weights, 2 weights and KV cache.
    """

    busy: float = 0.0
    running: int = 0
    tokens_per_s: float = 0.0
    memory: float = 0.0
    spinning: bool = False


class Gpus:
    """Eight GPUs that follow a load with a little inertia, each a little different."""

    def __init__(self, axes: Axes, seed: int, mem_fraction: float) -> None:
        self._axes = axes
        self._mem_fraction = mem_fraction
        self._bias = [dice("gpu", seed, index) % 1000 / 1000 - 0.5 for index in range(COUNT)]
        self._power = [165 + 24 * bias for bias in self._bias]
        self._heat = [33 + 4 * bias for bias in self._bias]
        self._tick = 0

    def step(self, load: Load) -> list[dict[str, float]]:
        """The readings half a second later, under ``load``."""
        self._tick += 1
        return [self._reading(index, load) for index in range(COUNT)]

    def _reading(self, index: int, load: Load) -> dict[str, float]:
        bias = self._bias[index]
        wave = math.sin(self._tick * 0.7 + index * 1.9) * 0.6 + math.sin(self._tick * 0.23 + index) * 0.4
        full = math.log2(1 + load.running) / math.log2(129) if load.running else 0.0
        idle = 165 + 24 * bias
        target = idle + load.busy * (378 + 52 * full - idle + 28 * bias) + wave * (2 + 5 * load.busy)
        if load.spinning:
            target = 300 + 20 * bias
        # Half a second of a 0.3 s time constant; heat follows power over many seconds.
        self._power[index] += (target - self._power[index]) * 0.8
        self._heat[index] += (31 + 0.062 * self._power[index] + 4 * bias - self._heat[index]) * 0.06
        util = 100.0 if load.spinning else round(100 * min(1.0, load.busy * 1.02))
        dram = load.busy * (4.5 + (6.0 if self._axes.algorithm else 0.0) * (1 - 0.45 * full) + wave * 0.4)
        nvlink = load.busy * (900 + load.tokens_per_s * 6.5) * (1 + 0.03 * bias)
        return {
            "power_w": round(max(150.0, self._power[index]), 1),
            "util": util,
            "memory_used_mib": round(self._memory(load.memory), 0),
            "temperature_c": round(self._heat[index], 0),
            "sm_clock_mhz": 1920.0 if load.busy > 0.05 or load.spinning else 345.0,
            "dram_util": round(max(0.0, dram), 2),
            "tensor_util": round(max(0.0, load.busy * (1.4 + 8.5 * full + wave * 0.3)), 2),
            "graphics_util": round(max(0.0, load.busy * (97 + wave)), 2),
            "sm_util": round(max(0.0, load.busy * (31 + 24 * full + 2 * wave)), 2),
            "nvlink_rx_mib_s": round(nvlink * (1 + 0.02 * wave), 1),
            "nvlink_tx_mib_s": round(nvlink * (1 - 0.02 * wave), 1),
        }

    def _memory(self, share: float) -> float:
        weights = EMPTY_MIB + WEIGHTS_MIB * min(1.0, share)
        cache = max(0.0, TOTAL_MIB * self._mem_fraction - WEIGHTS_MIB)
        return weights + cache * max(0.0, min(1.0, share - 1.0))


def write_state(path: Path, readings: list[dict[str, float]]) -> None:
    """Replaces the file at once, so that a reader never sees half of it."""
    state: dict[str, Any] = {"at": time.time(), "gpus": readings}
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(json.dumps(state), encoding="utf-8")
        fresh.replace(path)
    except OSError:
        # The folder goes when the embedded host ends; the engine is about to follow.
        fresh.unlink(missing_ok=True)
