"""The scheduler processes: one child for each tensor-parallel rank, to be counted, stopped and killed as real ones."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from pathlib import Path

PR_SET_PDEATHSIG = 1


class Ranks:
    """Children named ``sglang::scheduler_TP<n>`` that do nothing and die with this process."""

    def __init__(self, tp_size: int) -> None:
        self._names = [f"sglang::scheduler_TP{rank}" if tp_size > 1 else "sglang::scheduler" for rank in range(tp_size)]
        self._children: list[subprocess.Popen[bytes]] = []
        self._hold = -1

    def spawn(self) -> None:
        """Starts them. Each waits on a pipe that ends with this process."""
        read_end, self._hold = os.pipe()
        libc = ctypes.CDLL(None)

        def die_with_parent() -> None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

        self._children = [
            # A stopped child does not see the pipe's end, so it is also told to die with its parent.
            subprocess.Popen(
                [name],
                executable="/bin/cat",
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=die_with_parent,
            )
            for name in self._names
        ]
        os.close(read_end)

    def crashed(self) -> tuple[int, int, int] | None:
        """``(rank, pid, exit code)`` of a child that has ended, None while all live."""
        for rank, child in enumerate(self._children):
            code = child.poll()
            if code is not None:
                return rank, child.pid, code
        return None

    def alive(self) -> list[int]:
        """The pids of the children that have not ended."""
        return [child.pid for child in self._children if child.poll() is None]

    def pid(self, rank: int) -> int:
        """The pid of one rank's child, whether it lives or not."""
        return self._children[rank].pid

    def stopped(self) -> bool:
        """Whether a child is in state T, so that no collective of the ranks can end."""
        return any(_state(child.pid) in ("T", "t") for child in self._children)

    def kill(self, rank: int | None = None) -> None:
        """SIGKILL to one child or to all, and waits for them."""
        for child in self._children if rank is None else [self._children[rank]]:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            child.wait()


def _state(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "X"
    return text.rpartition(")")[2].split()[0]
