"""The stand-in's own graph canary: what its engine's faults mean for each budget. Nothing is computed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[4]))

from ddtune.sim.engine.axes import Axes
from ddtune.sim.engine.crash import ERRORS
from ddtune.sim.engine.faults import faults
from ddtune.sim.nvml import NAME

_FREE_MIB = 31_000
_HEADS = {"name": "mla", "query": 8, "kv": 1, "qk_width": 576, "v_width": 512}


def lines(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The lines of ``ddtune.inengine.graph_canary``, by what is known of the simulated hardware."""
    yield {"t": "gpu", "uuid": "GPU-b3000000-51b0-4d5e-a000-0000000000b3", "name": NAME, "free_mib": _FREE_MIB}
    yield {"t": "place", "kernel": f"{__name__} (simulated)", "device": "cuda", "torch": None}
    yield {"t": "shapes", "source": "model", "shapes": [_HEADS]}
    gpu = os.environ.get("DDTUNE_SIM_GPU", "b300")
    for budget in request["budgets"]:
        axes = replace(Axes(), algorithm="DDTREE", budget=budget, graphs=True)
        fault = faults(axes, gpu, "")
        for batch in request["batches"]:
            at = {"budget": budget, "batch": batch, "shape": "mla"}
            yield {"t": "begin", **at}
            failure = ERRORS[fault.replay][0] if fault.replay else None
            right = fault.output == "right"
            yield {
                "t": "case", **at, "eager": 0.0021, "replays": [0.0021 if right else 0.9] * 4, "equal": right,
                "stale": 0.05, "nan": True, "failure": failure, "seconds": 0.0,
            }  # fmt: skip
            if failure:
                return
    yield {"t": "end"}
