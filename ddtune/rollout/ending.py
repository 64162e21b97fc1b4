"""The end of a transaction: wait until the host has nothing left to do, also when a reboot took its txn.json away."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ddtune.config.model import Limits
from ddtune.host.errors import HelperFailed, HelperRefused, Unreachable
from ddtune.rollout.gating import Gating
from ddtune.rollout.link import HostLink
from ddtune.rollout.watch import TxnWatch

LOOK_S = 0.5
SERVING_S = 2.0
HISTORY_S = 5.0
ENDS = {
    "committed": "COMMITTED",
    "rolled_back": "ROLLED_BACK",
    "aborted": "ROLLED_BACK",
    "rollback_failed": "ROLLBACK_FAILED",
    "host_action_required": "HOST_ACTION_REQUIRED",
}


def end_in(history: Sequence[Mapping[str, Any]], op: str) -> dict[str, Any] | None:
    """The end of an op as its history line has it, in the shape of txn.json; None while there is none."""
    for line in reversed(history):
        if line.get("op") == op and line.get("event") in ENDS:
            evidence = list(line.get("evidence") or [])
            if not evidence and line.get("text"):
                evidence = [{"at": line.get("at"), "source": "guard", "rank": None, "text": line["text"]}]
            state = ENDS[str(line["event"])]
            return {"op": op, "state": state, "settled": True, "cause": line.get("cause"), "evidence": evidence}
    return None


async def await_over(link: HostLink, watch: TxnWatch, limits: Limits) -> None:
    """Read the transaction until it is over; gives up once the host must have decided long ago."""
    give_up = time.monotonic() + 2 * limits.start_deadline_s + limits.stop_timeout_s + limits.lease_s
    while not watch.over.is_set() and time.monotonic() < give_up:
        with contextlib.suppress(HelperRefused, HelperFailed, Unreachable):
            state = await link.call("state", limit=100, patience_s=limits.lease_s)
            txn = state.get("txn") or {}
            # txn.json lives on /run: after a reboot only the history knows.
            found = txn if txn.get("op") == watch.op else end_in(state.get("history") or (), watch.op)
            watch.update(found, state.get("boottime"))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(watch.over.wait(), LOOK_S)


async def quarantined(link: HostLink, op: str, release: str | None) -> bool:
    """Whether the host has ``release`` in quarantine once its history has the end of ``op``, which it writes last.

    False where it does not say so in time.
    """
    give_up = time.monotonic() + HISTORY_S
    while release is not None and time.monotonic() < give_up:
        with contextlib.suppress(HelperRefused, HelperFailed, Unreachable):
            state = await link.call("state", limit=100)
            if end_in(state.get("history") or (), op):
                return release in (state.get("quarantine") or ())
        await asyncio.sleep(LOOK_S)
    return False


async def await_serving(gating: Gating, limit_s: float) -> None:
    """Wait until the service completes a generation, at most ``limit_s`` seconds."""
    give_up = time.monotonic() + limit_s
    while time.monotonic() < give_up:
        with contextlib.suppress(Unreachable):
            if await gating.generates():
                return
        await asyncio.sleep(SERVING_S)
