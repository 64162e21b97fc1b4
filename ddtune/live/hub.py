"""The hub of one host: keeps a collector running over SSH and hands out immutable snapshots."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import aclosing, suppress
from dataclasses import asdict, replace
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.host.connect import connect
from ddtune.host.connection import Connection
from ddtune.host.errors import Unreachable
from ddtune.live.collect import collect
from ddtune.live.picture import snapshot
from ddtune.live.reduce import reduce
from ddtune.live.snapshot import Link, Snapshot
from ddtune.live.state import State
from ddtune.live.target import target_of
from ddtune.live.worker import Worker

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 15.0
# Nobody but the operator can change these, and asking often may lock a login.
REFUSED_WAIT_S = 60.0
REFUSED = frozenset(
    (
        "auth_failed",
        "unknown_host_key",
        "changed_host_key",
        "no_host_keys",
        "unsupported_option",
        "bad_name",
        "no_python",
    )
)
RTT_EVERY_S = 5.0
PUBLISH_EVERY_S = 1.0
PUBLISH_PAUSE_S = 0.05

Callback = Callable[[Snapshot], None]
Predicate = Callable[[Snapshot], bool]
Tap = Callable[[Mapping[str, Any], float], None]


class Hub:
    """Watches ``config``'s host from the worker's loop. All but ``first`` may be called from any thread.

    ``tap`` is told in that loop of each line that changes the picture and when it came, and of each change of the link
    as a line of kind ``link``; it must not block.
    """

    def __init__(
        self, config: HostConfig, worker: Worker, tick_s: float = 1.0, tap: Tap = lambda _line, _at: None
    ) -> None:
        self._config = config
        self._worker = worker
        self._tap = tap
        self._state = State(config.name, config.simulated, config.clock_scale, tick_s)
        self._latest = snapshot(self._state, time.time())
        self._callbacks: tuple[Callback, ...] = ()
        self._lock = threading.Lock()
        self._dirty: asyncio.Event | None = None
        self._again: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin to connect; a second call changes nothing."""
        self._worker.loop.call_soon_threadsafe(self._start)

    def stop(self) -> None:
        """Give the link back. Called outside the worker's thread it waits until that is done."""
        if self._worker.inside:
            self._stop()
            return
        with suppress(RuntimeError, FutureTimeoutError, CancelledError):
            self._worker.submit(self._stopping()).result(5.0)

    def retry(self) -> None:
        """Try a lost link again at once instead of after the wait; a link that is up stays as it is."""
        self._worker.loop.call_soon_threadsafe(self._retry)

    def latest(self) -> Snapshot:
        """The newest snapshot; before the first line one that says ``connecting``."""
        return self._latest

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Call ``callback`` in the worker's thread with each new snapshot; it must not block. Gives a way to end it."""
        with self._lock:
            self._callbacks = (*self._callbacks, callback)

        def unsubscribe() -> None:
            with self._lock:
                self._callbacks = tuple(one for one in self._callbacks if one is not callback)

        return unsubscribe

    async def first(self, wanted: Predicate, timeout: float) -> Snapshot | None:
        """The first snapshot that is ``wanted``; None when none came in ``timeout`` seconds. In the worker's loop.

        Raises ``Unreachable`` when the first try to connect fails.
        """
        found: asyncio.Future[Snapshot] = asyncio.get_running_loop().create_future()

        def look(one: Snapshot) -> None:
            if not found.done() and (wanted(one) or _failed(one)):
                found.set_result(one)

        unsubscribe = self.subscribe(look)
        look(self._latest)
        try:
            one = await asyncio.wait_for(found, timeout)
        except TimeoutError:
            return None
        finally:
            unsubscribe()
        if _failed(one) and not wanted(one):
            raise Unreachable("lost", one.link.error or f"{one.host} cannot be reached.")
        return one

    def wait(self, wanted: Predicate, first_s: float, more_s: float) -> Snapshot | None:
        """The first wanted snapshot, for callers outside the worker.

        Waits ``first_s`` seconds for any reading, then ``more_s`` for a wanted one, and then takes what there is; None
        when nothing was read. A first try to connect that fails ends the waiting: its snapshot says why.
        """
        changed = threading.Condition()

        def look(_one: Snapshot) -> None:
            with changed:
                changed.notify()

        unsubscribe = self.subscribe(look)
        deadline, read = time.monotonic() + first_s, False
        try:
            while True:
                one = self._latest
                if wanted(one) or _failed(one):
                    return one
                if one.link.state == "up" and not read:
                    read, deadline = True, time.monotonic() + more_s
                left = deadline - time.monotonic()
                if left <= 0:
                    return one if read else None
                with changed:
                    changed.wait(min(left, PUBLISH_EVERY_S))
        finally:
            unsubscribe()

    def _start(self) -> None:
        if self._task is None and not self._stopped:
            self._dirty, self._again = asyncio.Event(), asyncio.Event()
            self._task = self._worker.loop.create_task(self._run())

    def _retry(self) -> None:
        if self._again is not None:
            self._again.set()

    def _stop(self) -> None:
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def _stopping(self) -> None:
        self._stop()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._publish())
            tasks.create_task(self._keep_up())

    async def _keep_up(self) -> None:
        wait_s = FIRST_WAIT_S
        while True:
            try:
                async with connect(target_of(self._config)) as conn, aclosing(self._lines(conn)) as lines:
                    async for _ in lines:
                        wait_s = FIRST_WAIT_S
            except Unreachable as error:
                refused = error.cause in REFUSED
                state = "refused" if refused else "lost"
                self._set(replace(self._state, link=Link(state, None, error.message, self._since(state))))
                await self._pause(REFUSED_WAIT_S if refused else wait_s * random.uniform(0.5, 1.0))
                wait_s = min(LONGEST_WAIT_S, wait_s * 2)

    async def _pause(self, seconds: float) -> None:
        assert self._again is not None
        self._again.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._again.wait(), seconds)

    async def _lines(self, conn: Connection) -> AsyncGenerator[None]:
        """Take the collector's lines until the link breaks, and measure the link meanwhile."""
        measuring = asyncio.ensure_future(self._measure(conn))
        try:
            async with aclosing(collect(conn, self._config, self._state.cursors, self._state.tick_s)) as lines:
                async for line in lines:
                    self._take(line)
                    yield
        finally:
            measuring.cancel()

    def _take(self, line: dict[str, Any]) -> None:
        now = time.time()
        self._tap(line, now)
        state = reduce(self._state, line, now)
        if state.link.state != "up":
            state = replace(state, link=Link("up", state.link.rtt_ms, None, self._since("up")))
        self._set(state)

    async def _measure(self, conn: Connection) -> None:
        with suppress(Unreachable):
            while True:
                rtt_ms = round(1000 * await conn.rtt(), 1)
                self._set(replace(self._state, link=replace(self._state.link, rtt_ms=rtt_ms)))
                await asyncio.sleep(RTT_EVERY_S)

    def _since(self, state: str) -> float:
        link = self._state.link
        return link.since if link.state == state and link.since is not None else time.time()

    def _set(self, state: State) -> None:
        if state.link != self._state.link:
            self._tap({"t": "link", **asdict(state.link)}, time.time())
        self._state = state
        if self._dirty is not None:
            self._dirty.set()

    async def _publish(self) -> None:
        """A snapshot on each change, and one a second anyway: ages grow, also when the link is dead."""
        assert self._dirty is not None
        while True:
            self._latest = snapshot(self._state, time.time())
            for callback in self._callbacks:
                callback(self._latest)
            # A burst of lines is one picture.
            await asyncio.sleep(PUBLISH_PAUSE_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._dirty.wait(), PUBLISH_EVERY_S)
            self._dirty.clear()


def _failed(one: Snapshot) -> bool:
    """Whether the host was never reached, and why is known."""
    return one.link.error is not None and one.ages.gpus is None and one.ages.unit is None
