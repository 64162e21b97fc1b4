"""What the engine's own log says it does, for an engine without metrics and for what metrics leave out. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ddtune.engine.log import body_of, number
from ddtune.engine.model import EngineReading, LogLine
from ddtune.engine.sums import mean, total, whole

FRESH_S = 15.0
_DAY_S = 86400
_COMPILES = re.compile(r"DeepGEMM|JIT Pre-Compile|\b(?:[Cc]ompiling|autotun(?:e|ing)|Tuning)\b", re.ASCII)
_HEALTH = re.compile(
    r"^Health check failed.*?(?:tic start time: (\d\d):(\d\d):(\d\d))(?:.*?last_heartbeat time: (\d\d):(\d\d):(\d\d))?"
)
_CLOCK = re.compile(r"\[\d{4}-\d\d-\d\d (\d\d):(\d\d):(\d\d)")


def reading_from_log(lines: Iterable[LogLine], now: float) -> EngineReading | None:
    """The newest decode and prefill lines of each data-parallel rank, summed; None when there is no fresh one.

    ``now`` is on the clock of the lines' ``at``. Speeds and counts add up over ranks, lengths are averaged.
    """
    newest: dict[str, LogLine] = {}
    decodes: dict[str, LogLine] = {}
    for line in lines:
        if line.kind not in ("decode", "prefill") or now - line.at > FRESH_S:
            continue
        rank = _data_rank(line)
        newest[rank] = line
        if line.kind == "decode":
            decodes[rank] = line
    if not newest:
        return None
    return EngineReading(
        at=max(line.at for line in newest.values()),
        tokens_per_s=total(_values(decodes.values(), "gen throughput (token/s)")),
        accept_length=accept_length(decodes.values()),
        running=whole(total(_values(newest.values(), "#running-req"))),
        queued=whole(total(_values(newest.values(), "#queue-req"))),
        kv_usage=_largest(newest.values(), "token usage", "full token usage"),
        graphs_in_use=_graphs(decodes.values()),
        accept_source="log" if accept_length(decodes.values()) is not None else None,
    )


def accept_length(lines: Iterable[LogLine]) -> float | None:
    """The mean accept length that decode lines name; None without speculation."""
    return mean(length for line in lines if (length := number(line, "accept len")))


def compiles(line: LogLine) -> bool:
    """Whether the engine says that it compiles or tunes kernels: it then answers late and is not dead."""
    return line.source == "unit" and line.kind in ("startup", "other") and _COMPILES.search(body_of(line)) is not None


def stall_s(line: LogLine) -> float | None:
    """For the engine's own word that a health check failed: how long nothing was heard of its scheduler, in seconds.

    The times in it have no date and may lie on both sides of midnight. The line itself may come late: then the delay
    counts.
    """
    found = _HEALTH.search(body_of(line))
    if found is None:
        return None
    began = _of_day(found.groups()[:3])
    stalls = [0.0]
    if found[4]:
        stalls.append((began - _of_day(found.groups()[3:])) % _DAY_S)
    printed = _CLOCK.search(line.text)
    if printed:
        stalls.append((_of_day(printed.groups()) - began) % _DAY_S)
    return max(stalls)


def _of_day(parts: Sequence[str]) -> float:
    hours, minutes, seconds = (int(part) for part in parts)
    return float(hours * 3600 + minutes * 60 + seconds)


def _data_rank(line: LogLine) -> str:
    return next((tag for tag in (line.rank or "").split() if tag.startswith("DP")), "")


def _values(lines: Iterable[LogLine], *names: str) -> list[float]:
    found = (next((v for name in names if (v := number(line, name)) is not None), None) for line in lines)
    return [value for value in found if value is not None]


def _largest(lines: Iterable[LogLine], *names: str) -> float | None:
    return max(_values(lines, *names), default=None)


def _graphs(lines: Iterable[LogLine]) -> bool | None:
    said = [value for line in lines for key, value in line.fields if key in ("cuda graph", "cpu graph", "npu graph")]
    return all(value == "True" for value in said) if said else None
