"""Starting this package's standard-library programs in a bare interpreter, which costs a third of a whole one."""

from __future__ import annotations

import sys
from pathlib import Path

PACKAGE_PARENT = Path(__file__).resolve().parents[2]


def command(module: str, *args: str) -> list[str]:
    """The argv that runs ``ddtune.sim.<module>``'s ``main`` without site packages and environment variables."""
    path = f"import sys; sys.path.insert(0, {str(PACKAGE_PARENT)!r})"
    start = f"{path}; from ddtune.sim.{module} import main; sys.exit(main())"
    return [sys.executable, "-I", "-S", "-c", start, *args]
