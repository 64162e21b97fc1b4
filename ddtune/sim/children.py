"""Children of the embedded host's own process, which is also the parent of every orphan below it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Mapping, Sequence

from ddtune.sim import procs


class Children:
    """Starts programs and tells their wait statuses; collects every other child that ends. One in a process."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[subprocess.Popen[bytes], asyncio.Future[int]]] = {}
        procs.become_subreaper()
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def _reap(self) -> None:
        for pid, status in procs.reap():
            if pid in self._waiting:
                child, ended = self._waiting.pop(pid)
                child.returncode = 0  # collected here, so that Popen does not try
                if not ended.done():
                    ended.set_result(status)

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str
    ) -> tuple[subprocess.Popen[bytes], asyncio.Future[int]]:
        """A program in a session of its own with three pipes, and its wait status to come. Raises OSError."""
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            bufsize=0,
        )
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[child.pid] = (child, ended)
        return child, ended
