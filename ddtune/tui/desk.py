"""What the screens work with: one host's hub and transactions, kept in a thread that no screen can hold up."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future

from ddtune.config.model import HostConfig
from ddtune.live.hub import Hub
from ddtune.live.snapshot import Snapshot
from ddtune.live.worker import Worker
from ddtune.rollout.model import Outcome, Plan, Progress
from ddtune.rollout.session import Session
from ddtune.rollout.state import HostState

UNLOCK_S = 15 * 60.0


class Desk:
    """Reads and changes one host. Callbacks come in the worker's thread and must not block."""

    def __init__(self, config: HostConfig, *, write: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self._clock = clock
        self._unlocked_until = float("inf") if write else 0.0
        self.worker = Worker()
        self.hub = Hub(config, self.worker)
        self._session: Session | None = None
        self.running = False

    def start(self, arrived: Callable[[Snapshot], None]) -> None:
        """Begin to read."""
        self.hub.subscribe(arrived)
        self.hub.start()

    def stop(self) -> None:
        """Give the link back. A transaction that still runs is the host's from here on."""
        if self._session is not None:
            self.worker.submit(self._session.close())
        self.hub.stop()
        self.worker.close()

    @property
    def unlocked_s(self) -> float | None:
        """Seconds for which changes are still allowed; None when locked."""
        left = self._unlocked_until - self._clock()
        return left if left > 0 else None

    def unlock(self) -> None:
        """Allow changes for a while."""
        self._unlocked_until = max(self._unlocked_until, self._clock() + UNLOCK_S)

    def plan(self, kind: str, profile: str | None, *, force: bool = False) -> Future[Plan]:
        """Read the host and say what would happen."""

        async def plan() -> Plan:
            return await (await self._opened()).plan(kind, profile, force=force)

        return self.worker.submit(plan())

    def run(self, progress: Callable[[Progress], None]) -> Future[Outcome]:
        """Carry out the newest plan; it outlives the screen that asked for it."""

        async def run() -> Outcome:
            self.running = True
            try:
                return await (await self._opened()).run(progress)
            finally:
                self.running = False

        return self.worker.submit(run())

    def abort(self) -> Future[None]:
        """Abort the transaction that this desk runs."""

        async def abort() -> None:
            await (await self._opened()).abort_running()

        return self.worker.submit(abort())

    def state(self) -> Future[HostState]:
        """What the host keeps: releases, history, quarantine."""

        async def state() -> HostState:
            return await (await self._opened()).state(limit=100)

        return self.worker.submit(state())

    async def _opened(self) -> Session:
        if self._session is None:
            session = Session(self.config, self.worker, self.hub)
            await session.open()
            self._session = session
        return self._session
