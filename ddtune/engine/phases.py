"""Which phase a start is in, by the engine's log, and whether it still moves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ddtune.engine.log import body_of
from ddtune.engine.model import LogLine, Phase

_ORDER = tuple(Phase)
_ENTERS = (
    (Phase.WEIGHTS, re.compile(r"^Load weight begin")),
    (Phase.GRAPHS, re.compile(r"^Capture .*(?:cuda|CUDA) graph begin|^Capturing (?:batches|num tokens)")),
    (Phase.WARMUP, re.compile(r"^INFO:\s+(?:Started server process|Application startup complete|Uvicorn running)")),
    (Phase.WARMUP, re.compile(r"^The server is fired up and ready to roll")),
)
_FIRED_UP = _ENTERS[-1][1]
# Probes are answered, and complained about, by an engine that has stopped moving as well.
_NO_PROGRESS = re.compile(r'^INFO:\s+\S+ - "GET |^Health check failed|^\s*$')


def phase_after(phase: Phase, line: LogLine) -> Phase:
    """The phase after ``line``. It never goes back: a draft model's weights are loaded after the first graphs.

    The log alone never leads to READY, which takes a checked generation.
    """
    body = body_of(line)
    entered = next((entered for entered, regex in _ENTERS if regex.search(body)), phase)
    return max(phase, entered, key=_ORDER.index)


@dataclass(frozen=True)
class Start:
    """A start as far as it came. Times are on the clock of the lines' ``at``.

    ``entered`` is when each phase began; ``moved_at`` when the log last said something new; ``fired_up_at`` when the
    engine called itself ready.
    """

    began_at: float
    phase: Phase = Phase.LAUNCH
    entered: Mapping[Phase, float] = field(default_factory=dict)
    moved_at: float | None = None
    fired_up_at: float | None = None
    last_text: str = ""

    def after(self, line: LogLine) -> Start:
        """The start after one more line of the unit's journal."""
        body = body_of(line)
        if line.source != "unit" or _NO_PROGRESS.search(body) or body == self.last_text:
            return self
        phase = phase_after(self.phase, line)
        moved = replace(
            self, phase=phase, moved_at=line.at, last_text=body, entered=_with(self.entered, phase, line.at)
        )
        return replace(moved, fired_up_at=line.at) if _FIRED_UP.search(body) and not self.fired_up_at else moved

    def stalled_s(self, now: float) -> float:
        """Seconds without a sign of progress."""
        return max(0.0, now - (self.began_at if self.moved_at is None else self.moved_at))


def _with(entered: Mapping[Phase, float], phase: Phase, at: float) -> Mapping[Phase, float]:
    return entered if phase in entered or phase is Phase.LAUNCH else {**entered, phase: at}
