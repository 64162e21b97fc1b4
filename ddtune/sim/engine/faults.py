"""Which faults one start has, from its axes and the scenario; decisions only."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ddtune.sim.engine.axes import Axes
from ddtune.sim.engine.parting import Parting

LARGE_REPLAY = 8
SETTLED_S = 2.0
SCENARIOS = (
    "hang", "slow_start", "crash_after", "bad_exit", "port_late", "garbage", "empty", "wrong", "accept_one",
    "oom_graphs", "oom_weights", "near_ties", "doubled", "garbage_low", "garbage_high", "garbage_late", "poison",
    "drift", "fades",
)  # fmt: skip
ALONE = Parting()
_PARTING = {
    "near_ties": "near_ties", "doubled": "doubled", "garbage_low": "low", "garbage_high": "high",
    "garbage_late": "late", "poison": "poison", "drift": "drift", "empty": "empty",
}  # fmt: skip
_CONDITION = re.compile(r"@(\w+)(>=|<=|==|!=|>|<)([\w.]+):(.*)")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


@dataclass(frozen=True)
class Faults:
    """``replay`` is ``illegal_access`` or ``cublas``, raised by a graph replay of at least ``replay_running`` requests.

    ``output`` is what answers are made of: right, garbage (with ``garbage_after`` only after so many, and then in the
    ``garbage_share`` of them) or wrong. ``accept`` overrides the accept length; after ``fades_after_s`` only
    ``fades_to`` of the accepted drafts still are.
    ``start`` is a start that fails: slow_start, bad_exit, oom_weights or oom_graphs. Times are own seconds. A scenario
    of ``parting`` takes a strength from 0 to 1 behind a colon: ``doubled:0.5``.
    """

    replay: str | None = None
    replay_running: int = 1
    output: str = "right"
    accept: float | None = None
    garbage_after: int | None = None
    garbage_share: float = 1.0
    fades_after_s: float | None = None
    fades_to: float = 0.5
    hang_after: int | None = None
    crash_after_s: float | None = None
    start: str | None = None
    port_late_s: float = 0.0
    parting: Parting = ALONE

    def breaks(self, axes: Axes, running: int, since_ready_s: float | None) -> bool:
        """Whether a decode pass of ``running`` requests ends the engine; ``since_ready_s`` is None in warm-up."""
        if self.replay is None or running < self.replay_running or not axes.in_graph(running):
            return False
        if self.replay == "cublas":
            return True
        return since_ready_s is not None and since_ready_s >= SETTLED_S


def faults(axes: Axes, gpu: str, scenario: str) -> Faults:
    """The faults of a start with ``axes`` on ``gpu``. Raises ValueError on an unknown scenario."""
    found = _recorded(axes, gpu)
    for part in filter(None, (text.strip() for text in scenario.split(","))):
        name = part
        if part.startswith("@"):
            matched = _CONDITION.fullmatch(part)
            if not matched:
                raise ValueError(f"DDTUNE_SIM_SCENARIO: {part!r} is not @AXIS>=VALUE:SCENARIO")
            axis, compare, wanted, name = matched.groups()
            if not _holds(axes, axis, compare, wanted):
                continue
        found = _add(found, name)
    return found


def _recorded(axes: Axes, gpu: str) -> Faults:
    """What was seen on eight B300s: the tree's verify under captured graphs breaks above budget 8."""
    if gpu != "b300" or axes.algorithm != "DDTREE" or not axes.graphs or axes.budget < 9:
        return Faults()
    if axes.budget < 24:
        return Faults(replay="illegal_access", replay_running=LARGE_REPLAY)
    if axes.budget < 48:
        return Faults(output="garbage", accept=1.0)
    return Faults(replay="cublas")


def _add(found: Faults, scenario: str) -> Faults:
    name, _, value = scenario.partition(":")
    match name:
        case "hang":
            return replace(found, hang_after=int(value or 1))
        case "crash_after":
            return replace(found, crash_after_s=float(value or 10))
        case "port_late":
            return replace(found, port_late_s=float(value or 120))
        case "garbage" if value:
            after, _, share = value.partition(":")
            return replace(found, garbage_after=int(after), garbage_share=float(share or 1))
        case "fades":
            after, _, left = value.partition(":")
            return replace(found, fades_after_s=float(after or 600), fades_to=float(left or 0.5))
        case "garbage":
            return replace(found, output="garbage", accept=1.0)
        case "wrong":
            return replace(found, output=name)
        case _ if name in _PARTING:
            strength = min(1.0, max(0.0, float(value or 1)))
            return replace(found, parting=replace(found.parting, **{_PARTING[name]: strength}))
        case "accept_one":
            return replace(found, accept=1.0)
        case "slow_start" | "bad_exit" | "oom_weights" | "oom_graphs":
            return replace(found, start=name)
    raise ValueError(f"DDTUNE_SIM_SCENARIO: {name!r} is none of {', '.join(SCENARIOS)}")


def _holds(axes: Axes, axis: str, compare: str, wanted: str) -> bool:
    if axis not in Axes.__dataclass_fields__:
        raise ValueError(f"DDTUNE_SIM_SCENARIO: {axis!r} is not an axis")
    value = getattr(axes, axis)
    if isinstance(value, bool):
        return _COMPARE[compare](value, wanted.lower() in ("on", "true", "1"))
    if axis == "algorithm":
        return _COMPARE[compare]((value or "none").lower(), wanted.lower())
    return _COMPARE[compare](value or 0, float(wanted))
