"""A thread with an event loop of its own: connections, sampling and transactions never wait for a screen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

_CLOSE_S = 5.0


class Worker:
    """Starts at once. Use as a context manager, or call ``close``."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="ddtune-worker", daemon=True)
        self._thread.start()

    def submit(self, coro: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``coro`` in the worker's loop. May be called from any thread; wait for the result only outside it."""
        return asyncio.run_coroutine_threadsafe(coro, self.loop)

    @property
    def inside(self) -> bool:
        """Whether the caller runs in the worker's thread."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Cancel what still runs, let it clean up for a few seconds, and end the thread. May be called twice."""
        if self.loop.is_closed() or not self._thread.is_alive():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_CLOSE_S + 1)

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self._end())
        finally:
            self.loop.close()

    async def _end(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_S)
