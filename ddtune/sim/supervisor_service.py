"""One service's life as systemd 252 leads it: jobs, activation, the stop sequence, restarts and the start limit."""

from __future__ import annotations

import asyncio
import signal
import time
import uuid
from collections.abc import Mapping
from typing import Any, Protocol

from ddtune.sim.box import Box, Ended, Process
from ddtune.sim.supervisor_model import Job, StartLimit, outcome, status_text
from ddtune.sim.unitfile import Command, Config, expand


class World(Protocol):
    """What a service needs of its supervisor."""

    def log(self, service: Service, text: str, priority: int = 6) -> None: ...
    def job(self, kind: str) -> Job: ...
    def environment(self) -> dict[str, str]: ...
    async def box(self, service: Service) -> Box: ...
    def failed(self, service: Service) -> None: ...
    def dead(self, service: Service) -> None: ...


class Service:
    """A loaded unit. The public attributes are what ``systemctl show`` tells."""

    def __init__(self, config: Config, world: World) -> None:
        self.config = config
        self.world = world
        self.active, self.sub, self.result = "inactive", "dead", "success"
        self.invocation = ""
        self.restarts = 0
        self.main_pid = 0
        self.exec_pid = 0
        self.exec_start_us = self.exec_exit_us = 0
        self.exec_started_at = 0.0
        self.ended: Ended | None = None
        self.job: Job | None = None
        self.extra: Mapping[str, str] = {}
        self._box: Box | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._limit = StartLimit()
        self._flush = False

    @property
    def title(self) -> str:
        """The name as messages say it."""
        text = self.config.description
        return f"{self.config.name} - {text}" if text else self.config.name

    @property
    def busy(self) -> bool:
        """Whether anything of it runs or waits."""
        return self._task is not None

    # Requests. Each returns the job to wait for, None where there is nothing to do.

    def start(self, extra: Mapping[str, str] | None = None) -> Job | None:
        if self.active == "active" and not self._stop.is_set():
            return None
        if self.job is not None and self.job.kind == "start":
            return self.job
        self.extra = extra or {}
        job = self._enqueue("start")
        if self._task is None:
            self._task = asyncio.create_task(self._live())
        return job

    def stop(self) -> Job | None:
        if self._task is None:
            return None
        if self.job is not None and self.job.kind == "stop":
            return self.job
        job = self._enqueue("stop")
        self._stop.set()
        return job

    def restart(self) -> Job | None:
        if self._task is None:
            return self.start()
        job = self._enqueue("restart")
        self._stop.set()
        return job

    async def kill(self, sig: int) -> bool:
        """Signals all processes; False where there are none."""
        if self._box is None:
            return False
        name = signal.Signals(sig).name
        for pid, comm in await self._box.kill(sig):
            verb, what = ("Sent", "main process") if pid == self.main_pid else ("Sending", "process")
            self.world.log(
                self, f"{self.config.name}: {verb} signal {name} to {what} {pid} ({comm}) on client request."
            )
        return True

    def reset(self) -> None:
        """reset-failed: forgets failure, restarts and counted starts."""
        if self.active == "failed":
            self._set("inactive", "dead")
        self.result = "success" if self.active in ("inactive", "failed") else self.result
        self.restarts = 0
        self._limit = StartLimit()

    async def end(self) -> None:
        """Ends it without ceremony, for the host's own end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # Its life.

    def _enqueue(self, kind: str) -> Job:
        if self.job is not None:
            self.job.finish("canceled")
        self.job = self.world.job(kind)
        return self.job

    def _finish(self, outcome: str) -> None:
        job, self.job = self.job, None
        if job is not None:
            job.finish(outcome)

    def _set(self, active: str, sub: str) -> None:
        self.active, self.sub = active, sub

    def _say(self, text: str, priority: int = 6) -> None:
        self.world.log(self, f"{self.config.name}: {text}", priority)

    async def _live(self) -> None:
        try:
            while await self._turn():
                pass
        finally:
            self._task = None
        self.world.dead(self)

    async def _turn(self) -> bool:
        """One start and all that follows from it; True where the next start is due."""
        if not self._limit.admits(time.monotonic(), self.config.interval_s, self.config.burst):
            self._refuse()
            return False
        if self._flush:
            self.restarts, self._flush = 0, False
        if self.job is not None:
            self.job.running = True
        await self._activation()
        asked = self._stop.is_set()
        self._stop.clear()
        if self.result == "success":
            self._say("Deactivated successfully.")
        else:
            self._say(f"Failed with result '{self.result}'.", 4)
        if self.job is not None and self.job.running and self.job.kind == "start":
            word = "Finished" if self.config.kind == "oneshot" and self.result == "success" else "Failed to start"
            self.world.log(self, f"{word} {self.title}.", 6 if word == "Finished" else 3)
            self._finish("done" if word == "Finished" else "failed")
        if not asked and self._wants_restart():
            return await self._hold_off()
        self._flush = True
        self._set(
            "failed" if self.result != "success" else "inactive", "failed" if self.result != "success" else "dead"
        )
        return self._settle(asked)

    def _settle(self, asked: bool) -> bool:
        if asked:
            self.world.log(self, f"Stopped {self.title}.")
        if self.active == "failed":
            self.world.failed(self)
        if self.job is not None and self.job.kind in ("start", "restart"):
            self.job.kind = "start"
            return True
        self._finish("done")
        return False

    def _refuse(self) -> None:
        self._say("Start request repeated too quickly.", 4)
        if self.result == "success":
            self.result = "start-limit-hit"
        self._say(f"Failed with result '{self.result}'.", 4)
        self._set("failed", "failed")
        self.world.log(self, f"Failed to start {self.title}.", 3)
        self._flush = True
        self._finish("limit")
        self.world.failed(self)

    def _wants_restart(self) -> bool:
        rule = self.config.restart
        return rule == "always" or (rule == "on-failure" and self.result != "success")

    async def _hold_off(self) -> bool:
        self._set("activating", "auto-restart")
        try:
            await asyncio.wait_for(self._stop.wait(), self.config.restart_s)
        except TimeoutError:
            self.restarts += 1
            self._say(f"Scheduled restart job, restart counter is at {self.restarts}.")
            if self.job is None:
                self.job = self.world.job("start")
            self.world.log(self, f"Stopped {self.title}.")
            return True
        self._stop.clear()
        self._set("inactive", "dead")
        return self._settle(asked=True)

    async def _activation(self) -> None:
        self.result, self.ended = "success", None
        self.invocation = uuid.uuid4().hex
        self.exec_pid = self.exec_start_us = self.exec_exit_us = 0
        if self.config.start_pre or self.config.kind != "simple":
            self._set("activating", "start-pre" if self.config.start_pre else "start")
            self.world.log(self, f"Starting {self.title}...")
        self._box = await self.world.box(self)
        try:
            if await self._prepare():
                await self._watch(self._box, await self._launch())
            await self._wind_up(self._box)
        finally:
            self.main_pid = 0
            box, self._box = self._box, None
            await box.close()

    async def _prepare(self) -> bool:
        for command in self.config.start_pre:
            ended = await self._control(command, {}, self.config.start_timeout_s, "start-pre")
            if self._stop.is_set():
                self._stopping()
                return False
            if ended is None or (outcome(ended) != "success" and not command.ignore):
                if ended is not None:
                    self._say(f"Control process exited, {status_text(ended)}", 5)
                self.result = "timeout" if ended is None else outcome(ended)
                return False
        return True

    async def _control(
        self, command: Command, env: Mapping[str, str], limit_s: float | None, state: str, *, until_stop: bool = True
    ) -> Ended | None:
        """Runs a command to its end; None where its time was over. A stop asked for meanwhile ends it too."""
        assert self._box is not None
        process = await self._spawn(command, env)
        await self._first(process, limit_s, until_stop=until_stop)
        if process.ended.done():
            return process.ended.result()
        if not until_stop or not self._stop.is_set():
            self._say(f"State '{state}' timed out. Killing.", 4)
        await self._box.kill(signal.SIGKILL, process.pid)
        ended = await process.ended
        return ended if self._stop.is_set() and until_stop else None

    async def _first(self, process: Process, limit_s: float | None, *, until_stop: bool = True) -> None:
        """Waits for the process's end, its time, or a stop."""
        stop = asyncio.ensure_future(self._stop.wait() if until_stop else asyncio.Event().wait())
        waited: list[asyncio.Future[Any]] = [process.ended, stop]
        await asyncio.wait(waited, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()

    async def _spawn(self, command: Command, env: Mapping[str, str]) -> Process:
        assert self._box is not None
        own = {**self.world.environment(), **dict(self.config.environment), "INVOCATION_ID": self.invocation}
        whole = {**own, **self.extra, **env}
        return await self._box.spawn(expand(command.argv, whole), whole, self.config.cwd)

    async def _launch(self) -> Process:
        main = await self._spawn(self.config.start[0], {})
        self.main_pid = self.exec_pid = main.pid
        self.exec_start_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.exec_started_at = time.time()
        if self.config.kind == "oneshot":
            self._set("activating", "start")
        elif main.error is None or self.config.kind == "simple":
            self._set("active", "running")
            self.world.log(self, f"Started {self.title}.")
            if self.job is not None and self.job.running and self.job.kind == "start":
                self._finish("done")
        return main

    async def _watch(self, box: Box, main: Process) -> None:
        limit = self.config.start_timeout_s if self.config.kind == "oneshot" else None
        await self._first(main, limit)
        if main.ended.done():
            self._record(main.ended.result())
            if self.config.kill_mode == "mixed":
                self._log_killed(await box.purge())
            elif self.config.kill_mode == "control-group":
                await self._terminate(box)
            return
        if self._stop.is_set():
            self._stopping()
        else:
            self.result = "timeout"
        self._set("deactivating", "stop-sigterm")
        await box.kill(signal.SIGTERM, main.pid if self.config.kill_mode in ("mixed", "process") else None)
        await asyncio.wait([main.ended], timeout=self.config.stop_timeout_s)
        if not main.ended.done():
            self._say("State 'stop-sigterm' timed out. Killing.", 4)
            self.result = "timeout"
            self._set("deactivating", "stop-sigkill")
            self._log_killed(await box.purge() if self.config.kill_mode != "process" else await box.kill(9, main.pid))
        self._record(await main.ended)

    def _stopping(self) -> None:
        self.world.log(self, f"Stopping {self.title}...")
        if self.job is not None:
            self.job.running = True

    def _record(self, ended: Ended) -> None:
        self.ended = ended
        self.exec_exit_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.main_pid = 0
        if outcome(ended) != "success":
            self._say(f"Main process exited, {status_text(ended)}", 5)
            if self.result == "success":
                self.result = outcome(ended)

    def _log_killed(self, killed: list[tuple[int, str]]) -> None:
        for pid, comm in killed:
            self._say(f"Killing process {pid} ({comm}) with signal SIGKILL.", 5)

    async def _terminate(self, box: Box) -> None:
        """SIGTERM for what is left, and SIGKILL for what is left of that."""
        deadline = None if self.config.stop_timeout_s is None else time.monotonic() + self.config.stop_timeout_s
        sig: int = signal.SIGTERM
        while await box.kill(sig):
            sig = 0
            if deadline is not None and time.monotonic() > deadline:
                self._log_killed(await box.purge())
                return
            await asyncio.sleep(0.05)

    async def _wind_up(self, box: Box) -> None:
        """ExecStopPost, then the end of whatever is left."""
        env = {"SERVICE_RESULT": self.result}
        if self.ended is not None:
            killed = self.ended.how != "exited"
            status = signal.Signals(self.ended.status).name[3:] if killed else str(self.ended.status)
            env |= {"EXIT_CODE": self.ended.how, "EXIT_STATUS": status}
        if self.config.stop_post:
            self._set("deactivating", "stop-post")
        for command in self.config.stop_post:
            limit = self.config.stop_timeout_s
            ended = await self._control(command, env, limit, "stop-post", until_stop=False)
            if (ended is None or outcome(ended) != "success") and not command.ignore and self.result == "success":
                self.result = "timeout" if ended is None else outcome(ended)
        if self.config.kill_mode == "mixed":
            self._log_killed(await box.purge())
        elif self.config.kill_mode == "control-group":
            await self._terminate(box)
