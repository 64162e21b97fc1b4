"""What all tests share."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Callable
from typing import Any

import pytest


def _uncollected(parse: Callable[..., Any]) -> Callable[..., Any]:
    """``parse`` without a garbage collection in it.

    A finalizer that fails in there has its traceback formatted, which parses as well, and of two parses within each
    other CPython ends the outer one with a SystemError (its issue 106905): one of pytest's own ended whole runs.
    """

    @functools.wraps(parse)
    def parsed(*args: Any, **kwargs: Any) -> Any:
        collects = gc.isenabled()
        gc.disable()
        try:
            return parse(*args, **kwargs)
        finally:
            if collects:
                gc.enable()

    return parsed


ast.parse = _uncollected(ast.parse)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: only `make faults` runs it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves slow tests out, unless all faults, the mark or single tests are asked for by name."""
    named = "slow" in config.option.markexpr or any("::" in argument for argument in config.args)
    if named or config.getoption("--faults", False):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]
