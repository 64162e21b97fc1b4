"""What the host has decided meanwhile: the transaction as last read, and who renews its lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ddtune.host.errors import HelperFailed, HelperRefused, Unreachable
from ddtune.rollout.link import HostLink
from ddtune.rollout.state import is_over

REVERTED = ("ROLLED_BACK", "ROLLBACK_FAILED", "HOST_ACTION_REQUIRED")


class TxnWatch:
    """The newest txn.json of one op. ``reverted`` is set once the host has decided against the candidate."""

    def __init__(self, op: str) -> None:
        self.op = op
        self.txn: Mapping[str, Any] | None = None
        self.boottime: float | None = None
        self.reverted = asyncio.Event()
        self.over = asyncio.Event()
        self.on_change: Callable[[Mapping[str, Any]], None] = lambda _txn: None

    def update(self, txn: Mapping[str, Any] | None, boottime: float | None = None) -> None:
        """Take a newer reading; one of another op is none of ours, and nothing leads back from a decision."""
        if txn is None or txn.get("op") != self.op:
            return
        if self.reverted.is_set() and txn.get("state") not in REVERTED:
            return
        if self.over.is_set() and not is_over(txn):
            return
        self.txn = txn
        if boottime is not None:
            self.boottime = boottime
        if txn.get("state") in REVERTED:
            self.reverted.set()
        if is_over(txn):
            self.over.set()
        self.on_change(txn)

    def seconds_until(self, field: str) -> float | None:
        """Seconds until a deadline of the transaction, by the host's clock as last read."""
        if self.txn is None or self.boottime is None or not isinstance(self.txn.get(field), int | float):
            return None
        return max(0.0, float(self.txn[field]) - self.boottime)


async def keep_lease(link: HostLink, watch: TxnWatch, *, every_s: float, lease_s: float) -> None:
    """Renew the lease until cancelled, until the host has decided, or until the link stays dead for a whole lease."""
    while not watch.over.is_set():
        try:
            answer = await link.call("renew", op=watch.op, timeout=min(15.0, lease_s), patience_s=lease_s)
        except (HelperRefused, HelperFailed) as error:
            detail = error.detail if isinstance(error, HelperRefused) else {}
            watch.update(detail.get("txn"))
            if watch.reverted.is_set():
                return
        except Unreachable:
            return
        else:
            watch.update(answer.get("txn"), answer.get("boottime"))
        await asyncio.sleep(every_s)
