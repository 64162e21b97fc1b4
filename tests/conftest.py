"""What all tests share."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Callable
from typing import Any


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
