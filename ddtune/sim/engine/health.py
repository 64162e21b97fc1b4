"""``/health``: a generation of one token, waited for in ticks of a second."""

from __future__ import annotations

import asyncio
import time

from ddtune.sim.engine.engine import Engine
from ddtune.sim.engine.params import Ask

TICK_S, LIMIT_S = 1.0, 20.0


async def health(engine: Engine) -> int:
    """The status of ``/health``, after a second at least or twenty at most of own time."""
    if engine.stopping or engine.starting:
        return 503
    if not engine.settings.health_generates:
        return 200
    began = time.strftime("%H:%M:%S")
    before = engine.counters.decode_tokens
    job = engine.submit(Ask("HEALTH CHECK", 1, endless=True), salted=False)
    job.health = True
    for _ in range(int(LIMIT_S / TICK_S)):
        await asyncio.sleep(engine.clock.real(TICK_S))
        engine.look()
        if job.finished is not None or engine.counters.decode_tokens > before:
            engine.unhealthy = False
            engine.last_heartbeat = time.strftime("%H:%M:%S")
            return 200
    engine.unhealthy = True
    engine.log.server(
        f"Health check failed. Server couldn't get a response from detokenizer for last {LIMIT_S:.0f} seconds. "
        f"tic start time: {began}. last_heartbeat time: {engine.last_heartbeat}"
    )
    return 503
