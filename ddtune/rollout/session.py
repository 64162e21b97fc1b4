"""One host while somebody changes it: live readings, the helper, and at most one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from ddtune.config.model import HostConfig
from ddtune.gate.golden import Golden
from ddtune.live.hub import Hub
from ddtune.live.snapshot import Snapshot
from ddtune.live.worker import Worker
from ddtune.onhost.txn_model import VISIT
from ddtune.rollout.errors import Refused, require_writable
from ddtune.rollout.feed import Feed
from ddtune.rollout.link import HostLink
from ddtune.rollout.model import Outcome, Plan, Progress
from ddtune.rollout.outcome import outcome_of_abort
from ddtune.rollout.plan import Prepared, make_plan
from ddtune.rollout.state import HostState, read_state
from ddtune.rollout.timing import Stopwatch
from ddtune.rollout.transaction import Transaction
from ddtune.rollout.visit import Visit

FIRST_READING_S = 20.0
ENGINE_READING_S = 3.0


class Session:
    """Runs in the worker's loop. ``hub`` may be one that a dashboard already watches with."""

    def __init__(self, config: HostConfig, worker: Worker, hub: Hub | None = None) -> None:
        self.config = config
        self._own_hub = hub is None
        self._hub = hub or Hub(config, worker)
        self._feed = Feed()
        self._unsubscribe: Callable[[], None] = lambda: None
        self._link: HostLink | None = None
        self._prepared: Prepared | None = None
        self._stopwatch = Stopwatch()
        self._running: Transaction | None = None
        # What the last visit brought.
        self.golden: Golden | None = None

    async def open(self) -> None:
        """Begin to read and connect the helper. Raises Unreachable, or Refused where no service is found."""
        self._unsubscribe = self._hub.subscribe(self._arrived)
        if self._own_hub:
            self._hub.start()
        unit = self.config.unit
        if unit is None:
            snapshot = await self._hub.first(lambda one: one.service.unit is not None, FIRST_READING_S)
            unit = snapshot.service.unit if snapshot else None
        if unit is None:
            raise Refused(
                "unsupported_unit",
                f"No running SGLang service was found on {self.config.name}; name it as {self.config.name}:UNIT.",
            )
        # The plan names the requests that run; a host that gives no reading does not hold it up for long.
        self._link, _ = await asyncio.gather(
            HostLink(self.config, unit).open(),
            self._hub.first(lambda one: one.ages.engine is not None, ENGINE_READING_S),
        )
        self._stopwatch = Stopwatch()

    async def close(self) -> None:
        """Stop reading and give the connection back."""
        self._unsubscribe()
        if self._own_hub:
            self._hub.stop()
        if self._link is not None:
            await self._link.close()

    @property
    def link(self) -> HostLink:
        """The link, once open."""
        assert self._link is not None, "open() comes first"
        return self._link

    async def state(self, limit: int = 50) -> HostState:
        """What the host says of itself."""
        return read_state(await self.link.call("state", limit=limit))

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest reading."""
        return self._feed.snapshot

    async def first_reading(self, limit_s: float) -> None:
        """Wait for a reading of what ddtune and systemd know of the service, at most ``limit_s`` seconds."""
        await self._hub.first(lambda one: one.ages.unit is not None and one.adopted, limit_s)

    async def plan(
        self,
        kind: str,
        profile: str | None = None,
        *,
        force: bool = False,
        keep: bool = False,
        measure_running: bool = True,
    ) -> Plan:
        """Read the host and say what would happen. Raises UnknownProfile, Refused and the helper's errors.

        With ``keep`` the host remembers what its engine was asked; without it nothing is written there. Without
        ``measure_running`` the running service, known to be broken, is asked for nothing.
        """
        self._stopwatch = Stopwatch()
        with self._stopwatch.phase("preflight"):
            self._prepared = await make_plan(
                self.link,
                kind,
                profile,
                force=force,
                keep=keep,
                snapshot=self._feed.snapshot,
                stopwatch=self._stopwatch,
            )
        if not measure_running:
            self._prepared = replace(self._prepared, judges_stable=False)
        return self._prepared.plan

    async def run(self, progress: Callable[[Progress], None]) -> Outcome:
        """Carry out what was planned. Raises Refused for a host that may only be read."""
        require_writable(self.config)
        prepared = self._prepared
        assert prepared is not None, "plan() comes first"
        refused = prepared.plan.refused
        if refused is not None:
            plan = prepared.plan
            return Outcome(
                None,
                "refused",
                refused.cause,
                plan.origin,
                plan.target,
                plan.stable,
                message=refused.text,
                simulated=plan.simulated,
            )
        if prepared.ends_trial:
            return await self.abort()
        kind = Visit if prepared.plan.kind == VISIT else Transaction
        self._running = kind(self.link, self._feed, prepared, self._stopwatch, progress)
        try:
            return await self._running.run()
        finally:
            self.golden = self._running.made if isinstance(self._running, Visit) else None
            self._running = None

    async def abort_running(self) -> None:
        """Abort the transaction that this session runs; ``run`` then ends by itself."""
        if self._running is not None:
            await self._running.abort()

    async def abort(self) -> Outcome:
        """Abort whatever transaction the host runs and wait until it is over."""
        require_writable(self.config)
        state = await self.state()
        if state.busy is None:
            raise Refused("unknown", f"No transaction runs on {self.config.name}: there is nothing to abort.")
        op = str(state.busy["op"])
        await self.link.call("abort", op=op)
        while True:
            txn = (await self.state()).txn
            if txn is None or txn.get("op") != op or txn.get("settled"):
                return outcome_of_abort(op, txn, state, simulated=self.config.simulated)
            await asyncio.sleep(0.5)

    def _arrived(self, snapshot: Snapshot) -> None:
        self._feed.push(snapshot)
        if self._running is not None:
            self._running.take(snapshot.txn)
