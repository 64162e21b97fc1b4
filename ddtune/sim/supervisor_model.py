"""What the supervisor's parts share: jobs, how an end is judged and worded, the start limit."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass, field

from ddtune.sim.box import Ended

_CLEAN = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
_EXITS = ("SUCCESS", "FAILURE", "INVALIDARGUMENT", "NOTIMPLEMENTED", "NOPERMISSION", "NOTINSTALLED", "NOTCONFIGURED")
_LATE_EXITS = {7: "NOTRUNNING", 200: "CHDIR", 203: "EXEC"}


@dataclass
class Job:
    """An asked change of state; ``done`` gets done, failed, canceled or limit."""

    number: int
    kind: str
    done: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    running: bool = False

    def finish(self, outcome: str) -> None:
        if not self.done.done():
            self.done.set_result(outcome)


def status_text(ended: Ended) -> str:
    """``code=…, status=…`` of an end as systemd writes it."""
    if ended.how == "exited":
        name = _EXITS[ended.status] if ended.status < len(_EXITS) else _LATE_EXITS.get(ended.status, "n/a")
        return f"code=exited, status={ended.status}/{name}"
    return f"code={ended.how}, status={ended.status}/{signal.Signals(ended.status).name[3:]}"


def outcome(ended: Ended) -> str:
    """The ``Result`` that a main process's end gives."""
    if ended.how == "exited":
        return "success" if ended.status == 0 else "exit-code"
    if ended.how == "killed" and ended.status in _CLEAN:
        return "success"
    return "core-dump" if ended.how == "dumped" else "signal"


@dataclass
class StartLimit:
    """A count of starts in a window that begins with the first, as systemd's ``ratelimit_below`` keeps it."""

    began_s: float | None = None
    count: int = 0

    def admits(self, now_s: float, interval_s: float, burst: int) -> bool:
        """Counts one start; False where it is one too many."""
        if not interval_s or not burst:
            return True
        if self.began_s is None or now_s - self.began_s >= interval_s:
            self.began_s, self.count = now_s, 1
            return True
        if self.count >= burst:
            return False
        self.count += 1
        return True
