"""What a profile can be refused for."""

from __future__ import annotations


class UnsupportedAxis(Exception):  # noqa: N818 - it names a refusal that the user reads, not a fault
    """The build cannot express ``axis``; ``flag`` is what it would need, or None where no flag is known for it."""

    def __init__(self, axis: str, flag: str | None, why: str | None = None) -> None:
        lacking = f"it has no {flag}" if flag else "its dialect has no such axis"
        super().__init__(why or f"this build cannot express {axis!r}: {lacking}")
        self.axis = axis
        self.flag = flag
