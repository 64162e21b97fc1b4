"""One host watched headless: canaries, incidents, the way back, and what is told of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.host.errors import HelperFailed, HelperRefused, Unreachable
from ddtune.live.snapshot import Snapshot
from ddtune.live.worker import Worker
from ddtune.profiles.model import speculates
from ddtune.rollout import drift, golden, sights
from ddtune.rollout.canary import Canary
from ddtune.rollout.errors import Refused
from ddtune.rollout.judge import Judge
from ddtune.rollout.link import HostLink
from ddtune.rollout.model import Outcome
from ddtune.rollout.notify import Notifier
from ddtune.rollout.owner import owner
from ddtune.rollout.session import Session
from ddtune.rollout.sights import Notice, Sight
from ddtune.rollout.timing import Stopwatch

LOOK_S = 0.5
AGAIN_S = 5.0
BEAT_S = 30.0
CANARY_S = 45.0
WAIT_S = 10.0
# A beat that a busy host is slow with is waited for: it must not arrive behind the word that the watch is over.
BEAT_LIMIT_S = 45.0
FAREWELL_S = 75.0
FLUSH_S = 40.0
REFUSED_AGAIN_S = 60.0
READING_S = 20.0
HISTORY = 200
WATCHABLE = ("serving", "idle", "busy", "dead", "unknown")


class Watcher:
    """Watches until asked to end. ``say`` hears one line for each thing; ``acts`` is whether it goes back, and
    ``may_act`` whether that is still so when it would.
    """

    def __init__(
        self,
        config: HostConfig,
        worker: Worker,
        notifier: Notifier,
        say: Callable[[str], None],
        *,
        every_s: float,
        acts: bool,
        may_act: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._worker = worker
        self._notifier = notifier
        self._say = say
        self._every_s = every_s
        self._clock = clock
        # Where nothing may be changed, nothing is written either: no sign of life, no way back.
        self._acts = acts and not config.read_only
        self._mode = "acts" if self._acts else "dry" if notifier.dry else "tells"
        self._may_act = may_act
        self._sights: list[Sight] = []
        # What the sights are of: another release or transaction has no part in them.
        self._of: tuple[str | None, str | None] = (None, None)
        # Faults that last, with what was done; each is told once until a canary is answered rightly.
        self._lasting: set[tuple[str, str | None]] = set()
        # Since when nothing is seen, by both clocks: the wall clock may jump.
        self._dark: tuple[float, float] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._seen = drift.Watched()
        self._lines: tuple[Mapping[str, Any], ...] = ()
        self._acted_at: float | None = None
        self._owner = owner()
        # The unit on whose host this watch may have been heard of.
        self._seen_at: str | None = None
        self._changing = asyncio.Lock()
        self.beat: Callable[[], None] = lambda: None

    async def run(self, asked: asyncio.Event) -> None:
        """Until ``asked``: a host that cannot be reached is tried again, and said.

        A way back that has begun is carried to its end first: left alone, its lease would run out.
        """
        watching = asyncio.create_task(self._again_and_again())
        end = asyncio.create_task(asked.wait())
        try:
            await asyncio.wait((watching, end), return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                if self._changing.locked():
                    self._say(f"{self._config.name}: this watch ends when the change it has begun is over")
                async with self._changing:
                    watching.cancel()
                await asyncio.wait((watching,))
                await asyncio.gather(self._farewell(), self._flush())
        finally:
            watching.cancel()
            end.cancel()
        if not watching.cancelled():
            watching.result()

    async def _again_and_again(self) -> None:
        while True:
            try:
                await self._watch(once=False)
            except (Unreachable, Refused, HelperRefused, HelperFailed) as error:
                self._say(error.message)
                self._see(error.message)
            self.beat()
            await asyncio.sleep(WAIT_S)

    async def _farewell(self) -> None:
        """Says on the host that this watch was ended on purpose, however long a busy host takes to hear it."""
        if self._seen_at is None:
            return
        self.beat()
        host = self._config.name
        try:
            async with asyncio.timeout(FAREWELL_S):
                async with HostLink(self._config, self._seen_at) as link:
                    await link.call("watching", **self._of_it(), over=True, patience_s=FAREWELL_S)
        except (Unreachable, HelperRefused, HelperFailed, TimeoutError) as error:
            why = str(error) or "it did not answer in time"
            self._say(f"{host} could not be told that this watch has ended, and will call it missed: {why}")

    async def once(self) -> Sight:
        """One canary, and what is there to tell. Raises the errors of the way to the host."""
        return await self._watch(once=True)

    async def _watch(self, *, once: bool) -> Sight:
        session = Session(self._config, self._worker)
        await session.open()
        try:
            if not (await session.state(1)).adopted:
                host = self._config.name
                raise Refused("not_adopted", f"{host} is not under ddtune yet: run `ddtune adopt {host}` first.")
            judge = Judge(session.link, Stopwatch())
            canary = Canary(judge, lambda: session.snapshot, CANARY_S)
            if once:
                await session.first_reading(READING_S)
                await self._tell(session, session.snapshot)
                await self._flush()
                return await self._look(session, canary)
            over = asyncio.Event()
            beating = asyncio.create_task(self._keep_alive(session.link, over))
            try:
                await self._loop(session, canary)
            finally:
                over.set()
                await asyncio.wait((beating,), timeout=BEAT_LIMIT_S)
            raise AssertionError("the loop ends only by an error")
        finally:
            await session.close()

    async def _loop(self, session: Session, canary: Canary) -> None:
        self._say(f"watching {self._config.name}, a canary every {self._every_s:.0f} s")
        due = 0.0
        while True:
            now = self._clock()
            self.beat()
            snapshot = session.snapshot
            await self._tell(session, snapshot)
            if snapshot is not None:
                self._seen, found = drift.read(self._seen, snapshot)
                await self._heed(session, found)
            if now >= due and snapshot is not None and self._may_look(snapshot):
                try:
                    bad = (await self._look(session, canary)).cause is not None
                    if not bad:
                        self._lasting.clear()
                    self._seen, found = drift.looked(self._seen, snapshot.service.release, self._sights)
                except (Unreachable, HelperRefused) as error:
                    # Told as link_lost when it lasts; a load of somebody else's holds the lock for a while.
                    self._say(error.message)
                    bad, found = False, None
                due = self._clock() + (min(AGAIN_S, self._every_s) if bad else self._every_s)
                await self._heed(session, sights.late_fault(self._sights) or found)
            await asyncio.sleep(LOOK_S)

    def _of_it(self) -> dict[str, Any]:
        return {"owner": self._owner, "every_s": self._every_s, "mode": self._mode}

    async def _keep_alive(self, link: HostLink, over: asyncio.Event) -> None:
        """Signs of life on the host, so that any status, from any machine, knows of a watch that died."""
        if self._config.read_only:
            return
        self._seen_at = link.unit
        while not over.is_set():
            with contextlib.suppress(Unreachable, HelperRefused, HelperFailed):
                await link.once("watching", timeout=BEAT_LIMIT_S, **self._of_it())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), BEAT_S)

    def _may_look(self, snapshot: Snapshot) -> bool:
        """Nothing is asked of a trial, whose own gate asks, nor of a service that starts or was stopped."""
        open_ = snapshot.txn is not None and not snapshot.txn.get("settled")
        service = snapshot.service
        return snapshot.link.state == "up" and not open_ and (service.state == "failed" or self._up(snapshot))

    def _up(self, snapshot: Snapshot) -> bool:
        return snapshot.service.state == "active" and snapshot.service.health in WATCHABLE

    async def _look(self, session: Session, canary: Canary) -> Sight:
        snapshot = session.snapshot
        of = _what(snapshot)
        if of != self._of:
            self._sights, self._of = [], of
        if snapshot is not None and snapshot.service.state == "failed":
            sight = Sight(time.time(), "engine_dead", f"{session.link.unit} has failed and nobody starts it again.")
        else:
            state = await session.state(1)
            release = state.stable.release
            axes = state.meta_of(release).get("axes") or {}
            sight = await canary.look(release, golden.sizes_of(state), speculates(axes))
        if _what(session.snapshot)[1] != of[1]:
            # A transaction has begun meanwhile, and what it did to the canary is no fault.
            sight = Sight(sight.at, None, "the service was changed while it was asked")
        self._sights = [*self._sights, sight][-10:]
        if sight.cause:
            self._say(f"canary on {self._config.name}: {sight.cause}: {sight.text}")
        return sight

    async def _history(self, session: Session, snapshot: Snapshot) -> Sequence[Mapping[str, Any]]:
        """The newest lines, as a reading has them; behind a gap in them all since the last end that was told."""
        lines: Sequence[Mapping[str, Any]] = snapshot.history
        before = self._lines
        if lines and not any(line in before for line in lines):
            try:
                more = (await session.state(HISTORY)).history
            except (Unreachable, HelperRefused, HelperFailed):
                return lines
            lines = sights.since_told(self._config.name, more, self._notifier.is_told) or lines
        self._lines = snapshot.history
        return lines

    async def _tell(self, session: Session, snapshot: Snapshot | None) -> None:
        if snapshot is None or not snapshot.adopted:
            return
        host = self._config.name
        notices = [
            *sights.ends(host, await self._history(session, snapshot)),
            *(sights.of_incident(host, one) for one in snapshot.incidents),
        ]
        if self._notifier.fresh:
            self._notifier.known(notices)
        self._deliver(notices)
        if snapshot.link.state != "connecting":
            self._see(None if snapshot.link.state == "up" else snapshot.link.error or "")

    def _see(self, dark: str | None) -> None:
        """Tell once that nothing is seen, and why, when that has lasted; None when something is."""
        if dark is None:
            self._dark = None
            return
        self._dark = self._dark or (self._clock(), time.time())
        blind = sights.blind(self._config.name, self._dark[1], self._clock() - self._dark[0], dark)
        self._deliver([blind] if blind else [])

    def _deliver(self, notices: Sequence[Notice]) -> None:
        """Have ``notices`` told by the way: neither a canary nor the way back waits for who receives them."""
        self._notifier.take(notices)
        if self._sending is not None and self._sending.done():
            self._sending.result()
            self._sending = None
        if self._sending is None and self._notifier.due:
            self._sending = asyncio.create_task(self._notifier.send())

    async def _flush(self) -> None:
        """Send what was taken, as long as a receiver that answers at all may take."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                if self._sending is not None:
                    await self._sending
                await self._notifier.send()

    async def _heed(self, session: Session, found: Sight | None) -> None:
        """Tell what was found, and go back or start again where that is a cure."""
        snapshot = session.snapshot
        if found is None or found.cause is None or snapshot is None:
            return
        service = snapshot.service
        does = None
        if self._acts:
            does = sights.action(found.cause, service.standing, service.previous_profile, self._acted_at, self._clock())
        if does is not None and not self._may_act():
            self._say(f"{self._config.name} may not be changed any more, by its configuration: only told")
            does = None
        lasts = (found.cause, does)
        if found.cause == "drift" or lasts not in self._lasting:
            self._lasting.add(lasts)
            self._deliver([sights.of_sight(self._config.name, found, does)])
        if found.cause == "drift":
            return
        self._sights = []
        self._seen = drift.acted(self._seen)
        if does is None:
            return
        self._acted_at = self._clock()
        async with self._changing:
            outcome = await self._change(session, does)
        if outcome is None or outcome.outcome == "refused":
            # Nothing was changed, as when somebody else's transaction ran: the fault may be there when it is over.
            self._acted_at = self._clock() - sights.AGAIN_S + REFUSED_AGAIN_S
        if outcome is not None:
            self._say(f"{self._config.name}: {does} ended {outcome.outcome}: {outcome.message}")

    async def _change(self, session: Session, kind: str) -> Outcome | None:
        try:
            # What runs is no measure of anything: it is why this is done.
            await session.plan(kind, measure_running=False)
            running = asyncio.ensure_future(session.run(lambda _progress: self.beat()))
            while not running.done():
                self.beat()
                await asyncio.wait([running], timeout=LOOK_S)
            return running.result()
        except (Refused, HelperRefused, HelperFailed, Unreachable) as error:
            self._say(f"{self._config.name}: {kind} was not possible: {error.message}")
            return None


def _what(snapshot: Snapshot | None) -> tuple[str | None, str | None]:
    """The release that runs, and the newest transaction."""
    op = (snapshot.txn or {}).get("op") if snapshot else None
    return snapshot.service.release if snapshot else None, op
