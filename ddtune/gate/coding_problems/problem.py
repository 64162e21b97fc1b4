"""One coding problem: what is asked, and the hidden inputs that solutions are run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Tests = tuple[tuple[tuple[Any, ...], Any], ...]


@dataclass(frozen=True)
class Problem:
    """``tests`` are ``(arguments, expected)`` with values that JSON carries (tuples compare as lists)."""

    name: str
    signature: str
    task: str
    tests: Tests

    @property
    def prompt(self) -> str:
        """What the engine is asked."""
        return (
            f"Write a Python function with exactly this signature:\n\n{self.signature}\n\n{self.task}\n\n"
            "Use the standard library only. Answer with one ```python code block that holds the function and its "
            "imports, and no examples, no printing and no explanation."
        )
