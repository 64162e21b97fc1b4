"""From lines to one fault: what broke first, on which rank, and what only followed from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ddtune.engine.fatal import fatal_cause
from ddtune.engine.log import body_of
from ddtune.engine.model import Evidence, Incident, LogLine

# These name a death and not its reason: a line that gives the reason soon after says more.
_VAGUE = frozenset(("engine_dead", "start_failed", "nccl_error"))
_SOON_S = 5.0
_XID_WINDOW_S = 60.0
_SECONDARY_LIMIT = 4

_HEADER = re.compile(r"^Scheduler hit an exception")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): ")
_SECONDARY = re.compile(
    r"gloo/|Connection (?:closed|reset) by peer|[Bb]roken pipe|ConnectionResetError|ncclRemoteError|EOFError"
    r"|SIGQUIT|sigquit|crashed with exit code|Logging error|Pyspy failed"
)
_SUBPROCESS = re.compile(r"^Subprocess scheduler_(\d+) ")
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+)")
_OOM_GPU = re.compile(r"\bGPU (\d+) has a total capacity")
_IN_GRAPHS = re.compile(r"init_cuda_graphs|capture_cuda_graphs|cuda_graph_runner|Capture .*(?:cuda|CUDA) graph begin")
_IN_WEIGHTS = re.compile(r"\bload_model\b|load_weights|_initialize_model|init_memory_pool|Load weight begin")
_SERVING = re.compile(r"^The server is fired up|^Decode batch|Uvicorn running")
_REPLAY = re.compile(r"graph\w*\.py.*\breplay\b|\breplay\b.*graph|\.replay\(")
_LATE = frozenset(("illegal_memory_access", "illegal_instruction", "device_assert", "cublas_error"))


def classify(lines: Sequence[LogLine], gpus: Mapping[str, int] | None = None) -> Incident | None:
    """The first fault in ``lines`` (unit and kernel, in order), or None.

    ``gpus`` maps a PCI address as the kernel writes it, in lower case and without the function, to a GPU's index.
    Evidence begins with the line that decided; what followed from it and Xids near it come after.
    """
    unit = [line for line in lines if line.source == "unit"]
    found = _first(unit)
    if found is None:
        return None
    place, cause = found
    line = unit[place]
    header = _header(unit, place)
    context = unit[_start_of_trace(unit, place) : place + 1]
    if cause == "oom_serving":
        cause = _where_memory_ended(unit, place, context)
    xids = [other for other in lines if other.source == "kernel" and _near_xid(other, line)]
    evidence = [line, *_reason(unit, place, cause), *([header] if header else []), *_secondary(unit, place), *xids]
    return Incident(
        cause=cause,
        at=line.at,
        evidence=tuple(Evidence(item.at, item.source, item.text, item.rank) for item in dict.fromkeys(evidence)),
        rank=_rank(line, header),
        gpu=_gpu(line, xids, gpus or {}),
        note=_note(cause, context),
    )


def _first(unit: Sequence[LogLine]) -> tuple[int, str] | None:
    first: tuple[int, str] | None = None
    for place, line in enumerate(unit):
        if first is not None and line.at > unit[first[0]].at + _SOON_S:
            return first
        cause = fatal_cause(line.text)
        if cause is None:
            continue
        if cause not in _VAGUE:
            return place, cause
        first = first or (place, cause)
    return first


def _start_of_trace(unit: Sequence[LogLine], place: int) -> int:
    for back in range(place, max(-1, place - 200), -1):
        if _HEADER.search(body_of(unit[back])) or "Traceback (most recent call last)" in unit[back].text:
            return back
    return place


def _header(unit: Sequence[LogLine], place: int) -> LogLine | None:
    """The line that opened the trace that ``place`` is in; lines of a trace carry no rank of their own."""
    if unit[place].rank is not None:
        return None
    opened = unit[_start_of_trace(unit, place)]
    return opened if opened is not unit[place] and opened.rank is not None else None


def _rank(line: LogLine, header: LogLine | None) -> str | None:
    died = _SUBPROCESS.match(body_of(line))
    if died:
        return f"TP{died[1]}"
    return line.rank or (header.rank if header else None)


def _reason(unit: Sequence[LogLine], place: int, cause: str) -> list[LogLine]:
    """For a death without a known reason: the first exception that was printed before it."""
    if cause not in _VAGUE:
        return []
    for back in range(max(0, place - 200), place):
        body = body_of(unit[back])
        if _EXCEPTION.search(body) and not _SECONDARY.search(body):
            return [unit[back]]
    return []


def _secondary(unit: Sequence[LogLine], place: int) -> list[LogLine]:
    after = (line for line in unit[place + 1 :] if _SECONDARY.search(line.text) or fatal_cause(line.text))
    return [line for line, _ in zip(after, range(_SECONDARY_LIMIT), strict=False)]


def _where_memory_ended(unit: Sequence[LogLine], place: int, trace: Sequence[LogLine]) -> str:
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


def _near_xid(line: LogLine, fault: LogLine) -> bool:
    return abs(line.at - fault.at) <= _XID_WINDOW_S and _XID.search(line.text) is not None


def _gpu(line: LogLine, xids: Sequence[LogLine], gpus: Mapping[str, int]) -> int | None:
    memory = _OOM_GPU.search(line.text)
    if memory:
        return int(memory[1])
    for xid in xids:
        match = _XID.search(xid.text)
        index = gpus.get(match[1].lower().partition(".")[0]) if match else None
        if index is not None:
            return index
    return None


def _note(cause: str, trace: Sequence[LogLine]) -> str:
    if cause not in _LATE:
        return ""
    where = "in a CUDA graph's replay; " if any(_REPLAY.search(line.text) for line in trace) else ""
    return f"{where}CUDA reports such a fault late: the last frame of the trace need not be the place"
