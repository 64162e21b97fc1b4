"""What a run on a GPU must show to count: how each fault ends, and that a loaded GPU gives readings. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fault:
    """How a fault must be told; ``within_s`` bounds the seconds until it was, None where nothing is on trial.

    ``restarted`` None says nothing of restarts; ``on_stable`` is False for a release that is stable itself.
    """

    outcome: str
    causes: tuple[str, ...]
    within_s: float | None
    on_stable: bool = True
    restarted: bool | None = None


FAULTS: Mapping[str, Fault] = {
    "wrong_flag": Fault("refused", ("bad_flags",), None, restarted=False),
    "scheduler_killed": Fault("rolled_back", ("engine_dead",), 10.0),
    # The gate waits for whole answers before it calls it a hang.
    "scheduler_stopped": Fault("rolled_back", ("hang", "watchdog_timeout"), 120.0),
    # Its clock starts before the memory is taken and the trial has loaded.
    "memory_filled": Fault("rolled_back", ("oom_weights", "oom_graph_capture", "oom_serving"), 90.0),
    # An engine that is told to end answers what it has begun first.
    "sigterm_under_load": Fault("late_crash", ("engine_dead",), 60.0, on_stable=False),
}
GPU = ("power_w", "sm_util", "dram_util", "tensor_util")


def hold(row: dict[str, Any], failures: Sequence[str]) -> None:
    """Makes a stage not ok, with what it lacks as its error."""
    row["ok"] = not failures
    row["error"] = "; ".join(failures) or None


def fault(name: str, row: Mapping[str, Any]) -> list[str]:
    """What of a fault's row is not as it must be."""
    want, found = FAULTS[name], []
    if row.get("outcome") != want.outcome:
        found.append(f"outcome {row.get('outcome')}, not {want.outcome}")
    if row.get("cause") not in want.causes:
        found.append(f"cause {row.get('cause')}, not {' or '.join(want.causes)}")
    took = row.get("detected_s")
    if want.within_s is not None and (took is None or took > want.within_s):
        found.append(f"told after {took} s, not within {want.within_s:g}")
    if want.restarted is not None and row.get("restarted") is not want.restarted:
        found.append("what ran was restarted")
    if want.on_stable and row.get("on_stable") is not True:
        found.append("stable does not serve")
    return found


def reading(status: Mapping[str, Any] | None) -> list[str]:
    """What ``ddtune status --json`` lacks of a loaded host: watts and GPM's shares of a GPU, tokens of the engine."""
    gpus = (status or {}).get("gpus") or []
    rate = ((status or {}).get("service") or {}).get("tokens_per_s")
    found = [] if gpus else ["status shows no GPU"]
    for gpu in gpus:
        none = [key for key in GPU if gpu.get(key) is None]
        if none:
            found.append(f"GPU {gpu.get('index')} has no {' '.join(none)}")
    if not rate:
        found.append(f"status shows {rate} tokens/s under load")
    return found
