"""Memory that ran out: on which GPU, and what the engine was doing then. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddtune.engine.log import body_of
from ddtune.engine.model import LogLine

_GPU = re.compile(r"\bGPU (\d+) has a total capacity")
_IN_GRAPHS = re.compile(r"init_cuda_graphs|capture_cuda_graphs|cuda_graph_runner|Capture .*(?:cuda|CUDA) graph begin")
_IN_WEIGHTS = re.compile(r"\bload_model\b|load_weights|_initialize_model|init_memory_pool|Load weight begin")
_SERVING = re.compile(r"^The server is fired up|^Decode batch|Uvicorn running")


def gpu_of(line: LogLine) -> int | None:
    """The GPU that an allocator names in ``line``."""
    found = _GPU.search(line.text)
    return int(found[1]) if found else None


def where_memory_ended(unit: Sequence[LogLine], place: int, trace: Sequence[LogLine]) -> str:
    """The class of an allocation that failed at ``unit[place]``: by its trace, else by what was logged before."""
    for line in reversed(trace):
        if _IN_GRAPHS.search(line.text):
            return "oom_graph_capture"
        if _IN_WEIGHTS.search(line.text):
            return "oom_weights"
    for line in reversed(unit[:place]):
        body = body_of(line)
        if _SERVING.search(body):
            return "oom_serving"
        if _IN_GRAPHS.search(body):
            return "oom_graph_capture"
        if _IN_WEIGHTS.search(body):
            return "oom_weights"
    return "oom_serving"
