"""The table of what each scenario did, as docs/faults.md shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.gold import GOLD

HEAD = """\
# Faults

Written by one `make faults` from tests/faults. What was seen is read over a new login after the fault: the main
process's argv, the release that `stable` names, and the history. sshd and systemd are real.

`real`: the fault befalls real processes, files, sockets or boots. `injected`: what the host reads is replaced (kernel
log, wall clock), or something stands in for it: a freezer for a suspend, for a D state a tracer that holds a process at
its exit, so that it outlives SIGKILL. `sim`: the simulated engine itself misbehaves.
The engine is simulated in all of them. Seconds to stable: from the fault to stable answering again.

| n | scenario | required | seen | ok or not ok | seconds to stable | real, injected or sim |
|---|---|---|---|---|---|---|
"""


@dataclass
class Row:
    """One scenario's line; ``seconds`` from the fault to stable serving, None where nothing had to come back.

    ``parts`` counts the tests of the scenario that ran.
    """

    number: int
    kind: str
    seen: list[str] = field(default_factory=list)
    seconds: float | None = None
    ok: bool | None = None
    parts: int = 0

    def note(self, text: str) -> None:
        """Say what was seen."""
        if text not in self.seen:
            self.seen.append(text)

    def took(self, seconds: float) -> None:
        """Keep the longest time to stable of the scenario's parts."""
        self.seconds = max(seconds, self.seconds or 0.0)

    def join(self, other: Row) -> None:
        """Add what other tests of the same scenario did."""
        for text in other.seen:
            self.note(text)
        if other.seconds is not None:
            self.took(other.seconds)
        verdicts = [ok for ok in (self.ok, other.ok) if ok is not None]
        self.ok = all(verdicts) if verdicts else None
        self.parts += other.parts

    def line(self) -> str:
        scenario, required = GOLD[self.number]
        seconds = "—" if self.seconds is None else f"{self.seconds:.1f}"
        verdict = "ok" if self.ok else "not ok"
        cells = (str(self.number), scenario, required, "; ".join(self.seen) or "—", verdict, seconds, self.kind)
        return f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in cells)} |"


def table(rows: Mapping[int, Row], how: str = "") -> str:
    """The page for ``rows``, by number; ``how`` they were come by is said below."""
    lines = [rows[number].line() for number in sorted(rows)]
    good = sum(1 for row in rows.values() if row.ok)
    real = sum(1 for row in rows.values() if row.kind == "real")
    said = ", ".join(filter(None, (f"{good} of {len(GOLD)} ok", f"{real} real", how)))
    return HEAD + "\n".join(lines) + f"\n\n{said}.\n"


def write(rows: Mapping[int, Row], path: Path, how: str = "") -> None:
    """Writes the page."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(table(rows, how))
