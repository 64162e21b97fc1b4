"""``python -m tests.faults.tracer PID``: holds PID at its exit, so that it lives on through SIGKILL as in a D state.

Says ``held`` once it watches, and lets go at the end of standard input or when it is killed itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent.parent
SEIZE, AT_EXIT = 0x4206, 0x40


@contextlib.contextmanager
def held(pid: int) -> Iterator[None]:
    """``pid`` cannot be ended while this lasts."""
    words = [sys.executable, "-m", "tests.faults.tracer", str(pid)]
    tracer = subprocess.Popen(words, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == b"held\n", "it may not be traced here"
        yield
    finally:
        tracer.kill()
        tracer.communicate()


def main() -> None:
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes, ptrace.restype = [ctypes.c_ulong] * 4, ctypes.c_long
    if ptrace(SEIZE, int(sys.argv[1]), 0, AT_EXIT):
        sys.exit(os.strerror(ctypes.get_errno()))
    print("held", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
