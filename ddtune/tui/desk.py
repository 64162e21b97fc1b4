"""What the screens work with: one host's hub and transactions, kept in a thread that no screen can hold up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from ddtune.config.errors import ConfigError
from ddtune.config.model import HostConfig
from ddtune.config.paths import state_dir
from ddtune.host.errors import HelperFailed, HelperRefused, Unreachable
from ddtune.live import measured
from ddtune.live.hub import Hub
from ddtune.live.series import Series
from ddtune.live.snapshot import Snapshot
from ddtune.live.worker import Worker
from ddtune.profiles import store
from ddtune.profiles.envelope import Entry, shipped_envelope
from ddtune.profiles.model import Profile
from ddtune.rollout.errors import Refused, UnknownProfile
from ddtune.rollout.model import Outcome, Plan, Progress
from ddtune.rollout.onbuild import Build
from ddtune.rollout.session import Session
from ddtune.rollout.state import HostState
from ddtune.rollout.units import Ambiguous
from ddtune.tui import catalogue
from ddtune.tui.view import Run, Step, View, aged

UNLOCK_S = 15 * 60.0
BUILD_S = 180.0
CLOSE_S = 3.0
ABORT_TRIES = 20
ABORT_EVERY_S = 0.5
STEPS_KEPT = 500

T = TypeVar("T")


class DeskError(Exception):
    """What was asked cannot be done; one sentence."""


class Desk:
    """Reads and changes one host. ``changed`` comes in the worker's thread and must not block."""

    def __init__(
        self,
        config: HostConfig,
        *,
        write: bool,
        tick_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self._clock, self._wall = clock, wall
        self._unlocked_until = float("inf") if (write or config.write) and not config.read_only else 0.0
        self._worker = Worker()
        self._hub = Hub(config, self._worker, tick_s)
        self._session: Session | None = None
        self._asking = asyncio.Lock()
        self._planned: Plan | None = None
        self._run: Run | None = None
        self._task: asyncio.Task[None] | None = None
        self._boottime: tuple[float, float] | None = None
        self._measured: measured.Known = {}
        self._before: Snapshot | None = None
        self._changed: Callable[[], None] = lambda: None
        self._series = Series()
        self._envelope: tuple[Entry, ...] = ()
        self.profiles: Mapping[str, Profile] = {}

    def start(self, changed: Callable[[], None]) -> None:
        """Begin to read; ``changed`` is told of each new moment."""
        with suppress(ConfigError):
            self.profiles = store.load_profiles()
            self._measured = measured.read(self._numbers(), self.config.name)
            self._envelope = tuple(shipped_envelope())
        self._changed = changed
        self._hub.subscribe(self._arrived)
        self._hub.start()

    def stop(self) -> None:
        """Give the link back. A transaction that still runs is the host's from here on."""
        self._changed = lambda: None
        if self._session is not None and not self.running:
            with suppress(Exception):
                self._worker.submit(self._session.close()).result(CLOSE_S)
        self._hub.stop()
        self._worker.close()
        with suppress(ConfigError, OSError):
            if self._measured:
                measured.write(self._numbers(), self.config.name, self._measured)

    def view(self) -> View:
        """This moment."""
        now = self._clock()
        left = self._unlocked_until - now
        boottime = self._boottime
        return View(
            snapshot=aged(self._hub.latest(), self._wall()),
            now=now,
            unlocked_s=left if left > 0 else None,
            protected=self.config.protected,
            run=self._run,
            profiles=self.profiles,
            boottime=boottime[0] + now - boottime[1] if boottime else None,
            series=self._series,
            envelope=self._envelope,
        )

    @property
    def running(self) -> bool:
        """Whether a change that was started here still goes on."""
        return self._run is not None and self._run.active

    def unlock(self) -> None:
        """Allow changes for a while, on a host that may be changed at all."""
        if self.config.read_only:
            return
        self._unlocked_until = max(self._unlocked_until, self._clock() + UNLOCK_S)

    @property
    def _writable(self) -> bool:
        return self._unlocked_until > self._clock()

    def retry(self) -> None:
        """Try a lost link at once."""
        self._hub.retry()

    def plan(self, kind: str, profile: str | None, *, force: bool = False) -> Future[Plan]:
        """Read the host and say what would happen. Raises DeskError."""
        return self._ask(lambda session: self._make_plan(session, kind, profile, force=force))

    def state(self) -> Future[HostState]:
        """What the host keeps: releases, history, quarantine. Raises DeskError."""
        return self._ask(lambda session: session.state(limit=100))

    def catalogue(self) -> Future[tuple[catalogue.Entry, ...]]:
        """The profiles as they stand on the host. Raises DeskError."""

        async def read(session: Session) -> tuple[catalogue.Entry, ...]:
            state = await session.state(limit=200)
            kept = {"keep": True} if self._writable else {}
            build = Build.of(state, await session.link.call("probe_build", timeout=BUILD_S, **kept))
            return catalogue.entries(self.profiles, state, build, self._wall(), self._measured)

        return self._ask(read)

    def carry_out(self, plan: Plan) -> None:
        """Begin what was planned; it outlives the screen that asked. Only the newest plan is carried out."""

        async def run(session: Session) -> Outcome:
            if plan is not self._planned:
                raise DeskError("Nothing was touched: the host was read again after this plan. Plan it once more.")
            return await session.run(self._progressed)

        if not self.running:
            self._begin(plan.kind, plan, run)

    def go_back(self) -> None:
        """Back to what served before: out of a transaction that runs, whoever's it is, else to the previous release."""
        if self.running:
            self.abort()
        elif self.view().txn is not None:
            self._begin("abort", None, lambda session: session.abort())
        else:
            self._begin("rollback", None, self._roll_back)

    def abort(self) -> None:
        """Stop the change that was started here: before the host knows of it at once, else by the host's own hand."""
        self._worker.submit(self._abort())

    async def _abort(self) -> None:
        run, task = self._run, self._task
        if run is None or task is None:
            return
        if not run.armed:
            task.cancel()
            return
        self._moved(note="Asked to stop …")
        for _ in range(ABORT_TRIES):
            try:
                await (await self._opened()).abort_running()
            except (HelperRefused, HelperFailed, Unreachable) as error:
                # It may be asked between the arm's call and its answer.
                self._moved(note=f"Could not be stopped yet: {error.message}")
                await asyncio.sleep(ABORT_EVERY_S)
            else:
                return
            if not self.running:
                return

    async def _roll_back(self, session: Session) -> Outcome:
        self._planned = plan = await session.plan("rollback", keep=True)
        self._moved(plan=plan)
        return await session.run(self._progressed)

    async def _make_plan(self, session: Session, kind: str, profile: str | None, *, force: bool) -> Plan:
        if self.running:
            raise DeskError("A change is under way here; it has to end before another is planned.")
        self._planned = plan = await session.plan(kind, profile, force=force, keep=self._writable)
        return plan

    def _begin(self, kind: str, plan: Plan | None, what: Callable[[Session], Awaitable[Outcome]]) -> None:
        self._run = Run(kind, self._clock(), plan)

        async def run() -> None:
            self._task = asyncio.current_task()
            try:
                outcome = await what(await self._opened())
            except asyncio.CancelledError:
                self._moved(error="Stopped before anything was touched.", ended=self._clock())
            except Exception as error:  # noqa: BLE001 (whatever it was, the screen says it and the host decides)
                self._moved(error=sentence(error), ended=self._clock())
            else:
                self._moved(outcome=outcome, ended=self._clock())

        self._worker.submit(run())
        self._changed()

    def _progressed(self, progress: Progress) -> None:
        if self._run is not None:
            self._moved(steps=(*self._run.steps, Step(self._clock(), progress))[-STEPS_KEPT:])

    def _moved(self, **fields: Any) -> None:
        if self._run is not None:
            self._run = replace(self._run, **fields)
            self._changed()

    @staticmethod
    def _numbers() -> Path:
        return state_dir() / "measured.json"

    def _arrived(self, snapshot: Snapshot) -> None:
        if self._before is not None:
            self._measured = measured.noted(self._measured, self._before, snapshot)
        self._before = snapshot
        self._series.take(snapshot)
        if snapshot.boottime is not None and (self._boottime is None or snapshot.boottime != self._boottime[0]):
            self._boottime = (snapshot.boottime, self._clock())
        self._changed()

    def _ask(self, what: Callable[[Session], Coroutine[Any, Any, T]]) -> Future[T]:
        async def ask() -> T:
            try:
                return await what(await self._opened())
            except DeskError:
                raise
            except Exception as error:
                raise DeskError(sentence(error)) from error

        return self._worker.submit(ask())

    async def _opened(self) -> Session:
        async with self._asking:
            if self._session is None:
                session = Session(self.config, self._worker, self._hub)
                try:
                    await session.open()
                except BaseException:
                    await session.close()
                    raise
                self._session = session
            return self._session


def sentence(error: BaseException) -> str:
    """What went wrong as one sentence; a bug names itself."""
    if isinstance(error, Refused | HelperRefused | HelperFailed | Unreachable | UnknownProfile | Ambiguous):
        return error.message
    if isinstance(error, ConfigError | DeskError):
        return str(error)
    return f"ddtune failed ({type(error).__name__}: {error}); the host decides by itself."
