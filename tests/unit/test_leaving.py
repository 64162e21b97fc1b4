"""A dashboard whose terminal has gone does not stay."""

from __future__ import annotations

import subprocess
import sys

STUCK = """
import threading
from ddtune.tui import leaving
leaving.LONGEST_S = 0.2
leaving.leave(lambda: None)
threading.Event().wait({wait})
"""


def test_what_hangs_while_it_leaves_is_ended() -> None:
    stuck = subprocess.run([sys.executable, "-c", STUCK.format(wait="")], timeout=30, check=False)
    assert stuck.returncode == 129


def test_what_leaves_in_order_is_not_held_up() -> None:
    orderly = subprocess.run([sys.executable, "-c", STUCK.format(wait="0")], timeout=30, check=False)
    assert orderly.returncode == 0
