#!/usr/bin/python3 -u
"""nvidia-smi in a guest: eight B300s that draw what the simulated engine writes to its state file.

Answers ``--query-gpu=FIELDS --format=csv,noheader,nounits [--loop-ms=N]``; ``[N/A]`` for fields it does not know.
"""

import json
import sys
import time

STATE = "/run/sglang/gpus.json"
IDLE = {"power_w": 182.0, "util": 0, "memory_used_mib": 4, "temperature_c": 31, "sm_clock_mhz": 120}


def gpus():
    try:
        with open(STATE) as file:
            return json.load(file)["gpus"]
    except (OSError, ValueError, KeyError):
        return [IDLE] * 8


def field(name, index, gpu):
    fixed = {
        "index": str(index),
        "uuid": f"GPU-b3000000-0000-4000-8000-00000000000{index}",
        "pci.bus_id": f"00000000:{0x1A + index:02X}:00.0",
        "name": "NVIDIA B300 SXM6 AC",
        "compute_cap": "10.3",
        "enforced.power.limit": "1100.00",
        "memory.total": "275040",
        "clocks_throttle_reasons.active": "0x0000000000000000",
    }
    live = {
        "power.draw": "power_w",
        "utilization.gpu": "util",
        "memory.used": "memory_used_mib",
        "temperature.gpu": "temperature_c",
        "clocks.sm": "sm_clock_mhz",
    }
    if name in fixed:
        return fixed[name]
    value = gpu.get(live.get(name, ""))
    return "[N/A]" if value is None else f"{value:.2f}" if name == "power.draw" else f"{value:.0f}"


options = dict(word.split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
names = options["--query-gpu"].split(",")
while True:
    for index, gpu in enumerate(gpus()):
        print(", ".join(field(name, index, gpu) for name in names))
    if "--loop-ms" not in options:
        break
    time.sleep(int(options["--loop-ms"]) / 1000)
