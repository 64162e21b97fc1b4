"""The controller's link to a host: helper calls that outlive a dropped connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.host.connect import connect
from ddtune.host.connection import Connection
from ddtune.host.errors import Unreachable
from ddtune.host.helper import Helper
from ddtune.live.target import target_of
from ddtune.onhost.helper import READING as LOOKS
from ddtune.rollout.errors import require_writable

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 5.0
READING = LOOKS | {"check_flags", "can_adopt", "load"}
"""The verbs that write nothing on the host unless they are told to keep what they found.

Those three start a program or ask the service, which a login that may only look cannot have done.
"""


class HostLink:
    """One host, its unit and a helper on it; reconnects by itself and repeats a call that a dead link swallowed.

    Every verb is idempotent by op and state, so that repeating one is safe.
    """

    def __init__(self, config: HostConfig, unit: str) -> None:
        self.config = config
        self.unit = unit
        self._stack = AsyncExitStack()
        self._conn: Connection | None = None
        self._helper: Helper | None = None
        self._lock = asyncio.Lock()
        self.on_lost: Callable[[str], None] = lambda _message: None

    async def open(self) -> HostLink:
        """Connect; raises Unreachable."""
        await self._ensure()
        return self

    async def close(self) -> None:
        """Give the connection back."""
        self._conn = self._helper = None
        await self._stack.aclose()

    async def __aenter__(self) -> HostLink:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def once(self, verb: str, *, timeout: float = 30.0, **fields: Any) -> dict[str, Any]:
        """One call on the present connection.

        Raises Unreachable when the link is dead, HelperRefused when the host says no, Refused for a write on a
        read-only host.
        """
        self._check(verb, fields)
        helper = await self._ensure()
        try:
            return await helper.call(verb, self.unit, timeout=timeout, **fields)
        except Unreachable:
            await self._drop(helper)
            raise

    async def call(
        self, verb: str, *, timeout: float = 30.0, patience_s: float = 30.0, **fields: Any
    ) -> dict[str, Any]:
        """A call, repeated over new connections for up to ``patience_s`` seconds before Unreachable is raised.

        ``repeated`` stands in an answer that was not the first: a call before it may have done what it tells not of.
        """
        give_up = time.monotonic() + patience_s
        wait = FIRST_WAIT_S
        repeated: dict[str, Any] = {}
        while True:
            try:
                return await self.once(verb, timeout=timeout, **fields) | repeated
            except Unreachable as error:
                self.on_lost(error.message)
                if time.monotonic() + wait > give_up:
                    raise
            repeated = {"repeated": True}
            await asyncio.sleep(wait)
            wait = min(LONGEST_WAIT_S, wait * 2)

    async def fresh(self, verb: str, *, timeout: float = 30.0, **fields: Any) -> dict[str, Any]:
        """One call over a login of its own: proof that a new login still works."""
        self._check(verb, fields)
        async with connect(target_of(self.config)) as conn:
            return await self._make_helper(conn).call(verb, self.unit, timeout=timeout, **fields)

    def _check(self, verb: str, fields: Mapping[str, Any]) -> None:
        if verb not in READING or fields.get("keep"):
            require_writable(self.config)

    def _make_helper(self, conn: Connection) -> Helper:
        return Helper(conn, root=self.config.root, python=self.config.python)

    async def _ensure(self) -> Helper:
        async with self._lock:
            if self._helper is None:
                conn = await self._stack.enter_async_context(connect(target_of(self.config)))
                self._conn, self._helper = conn, self._make_helper(conn)
            return self._helper

    async def _drop(self, helper: Helper) -> None:
        async with self._lock:
            if self._helper is helper:
                self._conn = self._helper = None
                stack, self._stack = self._stack, AsyncExitStack()
                await stack.aclose()
