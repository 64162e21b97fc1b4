"""From lines to one fault: what broke first, on which rank, and what only followed from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ddtune.engine import ends
from ddtune.engine.log import body_of
from ddtune.engine.memory import gpu_of, where_memory_ended
from ddtune.engine.model import Evidence, Incident, LogLine, Phase
from ddtune.engine.phases import phase_after
from ddtune.engine.traces import context, header
from ddtune.onhost.fatal import XID, pci_key

SERVING = "serving"

# These name a death and not its reason: a line that gives the reason soon after says more.
_VAGUE = frozenset(("engine_dead", "start_failed", "nccl_error", "killed"))
_SOON_S = 5.0
_WHOLE = 2
_XID_WINDOW_S = 60.0
_SECONDARY_LIMIT = 4
_RANKS_LIMIT = 16
_HEAD = 500

_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): ")
SECONDARY = re.compile(
    r"gloo/|Connection (?:closed|reset) by peer|[Bb]roken pipe|ConnectionResetError|ncclRemoteError|EOFError"
    r"|SIGQUIT|sigquit|crashed with exit code|Logging error|Pyspy failed"
)
"""What is printed because something else broke before."""
_SUBPROCESS = re.compile(r"^Subprocess scheduler_(\d+) ")
_READY = re.compile(r"^The server is fired up")
_REPLAY = re.compile(r"graph\w*\.py.*\breplay\b|\breplay\b.*graph|\.replay\(")
_LATE = frozenset(("illegal_memory_access", "illegal_instruction", "device_assert", "cublas_error"))
_TRANSIENT = re.compile(r"\b802\b|system not yet initialized")
_TOO_LITTLE = re.compile(r"Please try to increase --mem-fraction-static")


def classify(
    lines: Sequence[LogLine], gpus: Mapping[str, int] | None = None, changed: Sequence[str] = ()
) -> Incident | None:
    """The first fault in ``lines`` of one run (unit and kernel, in order), or None.

    ``gpus`` maps a PCI address as the kernel writes it, in lower case and without the function, to a GPU's index;
    ``changed`` is what differs from stable. Evidence begins with the line that decided; what followed from it and Xids
    near it come after.
    """
    unit = [line for line in lines if line.source == "unit"]
    found = _first(unit)
    if found is None:
        return None
    place, cause = found
    line = unit[place]
    opened = header(unit, place)
    trace = context(unit, place)
    if cause == "oom_serving":
        cause = where_memory_ended(unit, place, trace)
    xids = [other for other in lines if other.source == "kernel" and _near_xid(other, line)]
    memory = ends.out_of_memory(lines, line.at) if cause in _VAGUE else None
    evidence = [
        *(line, *_reason(unit, place, cause), *([opened] if opened else [])),
        *([memory] if memory else []),
        *(*_secondary(unit, place), *xids),
    ]
    alike = _alike(unit, place, cause)
    return Incident(
        cause="killed" if memory else cause,
        at=line.at,
        evidence=tuple(Evidence(item.at, item.source, item.text, item.rank) for item in dict.fromkeys(evidence)),
        rank=_rank(line, opened),
        gpu=_gpu(line, xids, gpus or {}),
        note=_note(cause, trace, memory),
        ranks=_ranks(unit, alike),
        phase=_phase(unit[:place]),
        elapsed_s=max(0.0, line.at - unit[0].at),
        confidence=_confidence(cause, len(alike), bool(xids or memory)),
        xids=tuple(dict.fromkeys(int(match["number"]) for one in xids if (match := XID.search(one.text)))),
        changed=tuple(changed),
    )


def _first(unit: Sequence[LogLine]) -> tuple[int, str] | None:
    """The first of the lines that tell most, among those soon after each other."""
    first: tuple[int, str] | None = None
    for place, line in enumerate(unit):
        if first is not None and line.at > unit[first[0]].at + _SOON_S:
            return first
        if line.fatal is not None and (first is None or _tells(line.fatal) > _tells(first[1])):
            first = place, line.fatal
        if first is not None and _tells(first[1]) == _WHOLE:
            return first
    return first or _end(unit)


def _tells(cause: str) -> int:
    """How much of what happened a cause tells: after an illegal access each CUBLAS call of any rank fails as well."""
    return 0 if cause in _VAGUE else 1 if cause == "cublas_error" else _WHOLE


def _end(unit: Sequence[LogLine]) -> tuple[int, str] | None:
    """The unit's own end, where no line of the engine says why."""
    found = ends.unasked(unit)
    if found is None:
        return None
    place, code, status = found
    if code == "killed" and status == 9:
        return place, "killed"
    return place, "engine_dead" if _phase(unit[:place]) == SERVING else "start_failed"


def _rank(line: LogLine, opened: LogLine | None) -> str | None:
    died = _SUBPROCESS.match(body_of(line))
    if died:
        return f"TP{died[1]}"
    return line.rank or (opened.rank if opened else None)


def _alike(unit: Sequence[LogLine], place: int, cause: str) -> list[int]:
    """The lines that name the same cause as ``unit[place]`` does, from there on."""
    wanted = unit[place].fatal
    return [at for at in range(place, len(unit)) if unit[at].fatal in (wanted, cause) and wanted]


def _ranks(unit: Sequence[LogLine], places: Sequence[int]) -> tuple[str, ...]:
    found = (_rank(unit[place], header(unit, place)) for place in places[:_RANKS_LIMIT])
    return tuple(dict.fromkeys(rank for rank in found if rank))


def _reason(unit: Sequence[LogLine], place: int, cause: str) -> list[LogLine]:
    """For a death without a known reason: the first exception that was printed before it."""
    if cause not in _VAGUE:
        return []
    for back in range(max(0, place - 200), place):
        body = body_of(unit[back])
        if _EXCEPTION.search(body) and not SECONDARY.search(body):
            return [unit[back]]
    return []


def _secondary(unit: Sequence[LogLine], place: int) -> list[LogLine]:
    after = (line for line in unit[place + 1 :] if line.fatal or _followed(line))
    return [line for line, _ in zip(after, range(_SECONDARY_LIMIT), strict=False)]


def _followed(line: LogLine) -> bool:
    if line.fields:
        return False
    head = line.text[:_HEAD]
    return SECONDARY.search(head) is not None or (ends.is_systemds(line) and ends.CONSEQUENCE.search(head) is not None)


def _phase(before: Sequence[LogLine]) -> str:
    phase = Phase.LAUNCH
    for line in before:
        if line.kind in ("decode", "prefill") or _READY.match(body_of(line)):
            return SERVING
        if line.kind == "startup":
            phase = phase_after(phase, line)
    return phase.value


def _near_xid(line: LogLine, fault: LogLine) -> bool:
    return abs(line.at - fault.at) <= _XID_WINDOW_S and XID.search(line.text) is not None


def _gpu(line: LogLine, xids: Sequence[LogLine], gpus: Mapping[str, int]) -> int | None:
    memory = gpu_of(line)
    if memory is not None:
        return memory
    for xid in xids:
        match = XID.search(xid.text)
        index = gpus.get(pci_key(match["pci"])) if match else None
        if index is not None:
            return index
    return None


def _confidence(cause: str, lines: int, confirmed: bool) -> str:
    if confirmed:
        return "sure"
    if cause in _VAGUE:
        return "possible"
    return "sure" if lines > 1 else "likely"


def _note(cause: str, trace: Sequence[LogLine], memory: LogLine | None) -> str:
    if memory is not None:
        return "the kernel killed it because the host's memory was used up"
    if cause == "killed":
        return "it ended by signal 9, and the kernel does not say that memory was the reason"
    if cause == "nvls_fabric" and _TRANSIENT.search(trace[-1].text):
        return "the NVLink fabric was not ready (802), which passes: the same profile deserves one more try"
    if cause == "oom_weights" and _TOO_LITTLE.search(trace[-1].text):
        return "after weights and graphs too little memory is left for the KV cache"
    if cause not in _LATE:
        return ""
    where = "in a CUDA graph's replay; " if any(_REPLAY.search(line.text) for line in trace) else ""
    return f"{where}CUDA reports such a fault late: the last frame of the trace need not be the place"


def together(before: Incident, now: Incident) -> Incident:
    """``now`` with what the fault of the run before says of it: two opposite complaints about memory."""
    opposite = _complaint(before) and _complaint(now) and _complaint(before) != _complaint(now)
    if not opposite:
        return now
    return replace(
        now,
        evidence=tuple(dict.fromkeys((*now.evidence, before.evidence[0]))),
        note="the run before failed for the opposite reason: no memory fraction between the two is feasible; lower the "
        "graphs' largest batch, or take a smaller draft model",
    )


def _complaint(incident: Incident) -> str | None:
    if incident.cause not in ("oom_weights", "oom_graph_capture", "oom_serving") or not incident.evidence:
        return None
    return "too little" if _TOO_LITTLE.search(incident.evidence[0].text) else "too much"
