"""How long each step of a run took."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Steps:
    """Rows of ``(step, seconds, what was seen)`` in the order in which they ended."""

    rows: list[tuple[str, float, str]] = field(default_factory=list)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[list[str]]:
        """Times what is inside; the list takes what was seen."""
        seen: list[str] = []
        began = time.monotonic()
        yield seen
        self.rows.append((name, time.monotonic() - began, "; ".join(seen)))

    def table(self) -> str:
        """As Markdown."""
        lines = ["| step | seconds | seen |", "|---|---|---|"]
        lines += [f"| {name} | {seconds:.0f} | {seen} |" for name, seconds, seen in self.rows]
        total = sum(seconds for _, seconds, _ in self.rows)
        return "\n".join([*lines, f"| all | {total:.0f} | |"])


def parts(phases: Mapping[str, Any]) -> str:
    """The phases of a transaction in a few words."""
    start = phases.get("start")
    flat = {**phases, "start": sum(start.values()) if isinstance(start, dict) else start}
    named = {name: flat.get(name) for name in ("preflight", "baseline", "stop", "start", "quick", "full", "rollback")}
    return ", ".join(f"{name} {value:.0f}" for name, value in named.items() if isinstance(value, int | float))
