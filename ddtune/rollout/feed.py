"""Snapshots as the transaction consumes them: the newest one, and every log line once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ddtune.engine.model import Incident, LogLine
from ddtune.live.snapshot import Snapshot

REMEMBERED = 4096


class Feed:
    """Takes snapshots from the hub and hands out log lines that were not seen before.

    ``on_requests`` is told each fresh reading of a start's own request counter.
    """

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self._arrived = asyncio.Event()
        self._seen: dict[object, None] = {}
        self._lines: list[LogLine] = []
        self.on_requests: Callable[[str, float], None] = lambda _invocation, _count: None

    def push(self, snapshot: Snapshot) -> None:
        """Take a snapshot; called in the loop's own thread."""
        self.snapshot = snapshot
        for line in snapshot.log:
            key: object = line.cursor or (line.at, line.source, line.text)
            if key not in self._seen:
                self._seen[key] = None
                self._lines.append(line)
        while len(self._seen) > REMEMBERED:
            self._seen.pop(next(iter(self._seen)))
        service = snapshot.service
        fresh = snapshot.ages.engine is not None and snapshot.ages.engine <= 2 * snapshot.tick_s
        if fresh and service.invocation is not None and service.requests_total is not None:
            self.on_requests(service.invocation, service.requests_total)
        self._arrived.set()

    def lines(self) -> Iterable[LogLine]:
        """The log lines since the last call."""
        lines, self._lines = self._lines, []
        return lines

    async def wait(self, timeout: float) -> None:
        """Wait for the next snapshot, at most ``timeout`` seconds."""
        self._arrived.clear()
        try:
            await asyncio.wait_for(self._arrived.wait(), timeout)
        except TimeoutError:
            return

    def graphs_in_use(self, invocation: str | None) -> bool | None:
        """What that start of the engine says of its graphs; None where nothing was read of it yet."""
        service = self.snapshot.service if self.snapshot else None
        return service.graphs_in_use if service and invocation and service.invocation == invocation else None

    def model(self, invocation: str | None) -> str | None:
        """The model that this start of the engine serves by its own word; None where it has not told yet."""
        service = self.snapshot.service if self.snapshot else None
        return service.model if service and invocation and service.invocation == invocation else None

    @property
    def incident(self) -> Incident | None:
        """The newest classified fault of the log, or None."""
        return self.snapshot.incidents[-1] if self.snapshot and self.snapshot.incidents else None
