"""Leaving when a signal says so: in order, or else after a while in any case."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

LONGEST_S = 20.0
"""After a terminal has gone, writing the last of it may wait for ever, and the link would stay open with it."""
GONE = 129


def leave(in_order: Callable[[], object]) -> None:
    """Begin to leave. A process that is still there after ``LONGEST_S`` ends at once."""
    last = threading.Timer(LONGEST_S, os._exit, (GONE,))
    last.daemon = True
    last.start()
    in_order()
