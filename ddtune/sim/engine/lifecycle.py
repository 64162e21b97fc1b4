"""From the first line to the last: the start phases, an orderly stop, and a crash with its frozen minute."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from typing import NoReturn

from ddtune.sim.engine import crash, startup
from ddtune.sim.engine.engine import Engine
from ddtune.sim.engine.gpus import STEP_S, Gpus, Load, write_state
from ddtune.sim.engine.params import Ask
from ddtune.sim.engine.vocabulary import dice

NOTICE_REAL_S = 0.3
DIAGNOSTICS_S, COREDUMP_S = 5.0, 60.0
STOP_POLL_S, STOP_END_S = 5.0, 1.5
SIGTERM_TEXT = "SIGTERM received. signum=None frame=None. Draining requests and shutting down..."


class Lifecycle:
    """Drives one engine's process. ``serve`` binds the port and raises OSError when it cannot."""

    def __init__(self, engine: Engine, serve: Callable[[], Coroutine[None, None, None]]) -> None:
        self.engine = engine
        self._serve = serve
        self._log = engine.log
        self._memory = 0.0
        self._seen_busy = 0.0
        self._seen_at = 0.0
        self._spawned = self._bound = False
        self._stopping: asyncio.Task[None] | None = None
        self._gpus = Gpus(engine.launch.axes, engine.settings.seed, float(engine.launch.args["mem_fraction_static"]))
        engine.on_break = self.break_down
        engine.on_watchdog = self.bark

    async def run(self) -> None:
        """Starts, serves, and never returns of itself."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._child_changed)
        ticker = loop.create_task(self._tick()) if self.engine.settings.state else None
        await self._start()
        await asyncio.Event().wait()
        del ticker

    async def _start(self) -> None:
        engine, launch = self.engine, self.engine.launch
        if engine.faults.start == "bad_exit":
            crash.bad_algorithm(self._log, "Not enough memory. Please try to increase --mem-fraction-static.")
            sys.exit(1)
        zero = engine.clock.now()
        for step in startup.timetable(launch):
            late = engine.faults.port_late_s if step.mark == "http" else 0.0
            if not engine.settings.warm:
                await self._until(zero + step.at + late)
            if step.memory is not None:
                self._memory = step.memory
            await self._at(step)
        await self._warm_up()

    async def _until(self, own_s: float) -> None:
        await asyncio.sleep(max(0.0, self.engine.clock.real(own_s - self.engine.clock.now())))

    async def _at(self, step: startup.Step) -> None:
        engine, fault = self.engine, self.engine.faults.start
        if step.line and step.rank is None:
            self._log.server(step.line)
        elif step.line and step.rank == "raw":
            self._log.raw(step.line)
        elif step.line and step.rank == "all":
            self._log.ranks(step.line, range(engine.launch.axes.tp_size))
        elif step.line:
            self._log.rank(step.line)
        match step.mark:
            case "spawn":
                engine.ranks.spawn()
                self._spawned = True
            case "cache" if fault == "oom_weights":
                self._out_of_memory("weights", 0.02)
            case "graphs" if fault == "oom_graphs" and engine.launch.axes.graphs:
                await self._until(engine.clock.now() + (0 if engine.settings.warm else 4))
                self._out_of_memory("graphs", 0.31)
            case "http":
                await self._bind()
        if fault == "slow_start" and " 32/64 " in step.line:
            await asyncio.Event().wait()

    async def _bind(self) -> None:
        args = self.engine.launch.args
        self._log.server(f"INFO:     Started server process [{os.getpid()}]")
        self._log.server("INFO:     Waiting for application startup.")
        self._log.server("INFO:     Application startup complete.")
        try:
            await self._serve()
        except OSError as error:
            where = f"('{args['host']}', {args['port']})"
            text = f"[Errno {error.errno}] error while attempting to bind on address {where}: address already in use"
            self._log.server(f"ERROR:    {text}")
            self.engine.ranks.kill()
            sys.exit(1)
        self._bound = True
        where = f"http://{args['host']}:{args['port']}"
        self._log.server(f"INFO:     Uvicorn running on {where} (Press CTRL+C to quit)")

    async def _warm_up(self) -> None:
        engine = self.engine
        quick = engine.settings.warm
        if not engine.launch.args["skip_server_warmup"]:
            await self._until(engine.clock.now() + (0 if quick else startup.WARMUP_S))
            self._log.access("127.0.0.1:54798", "GET", "/model_info", 200)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stop)
            job = engine.submit(Ask("The capital city of France is", 8, endless=True))
            assert job.done is not None
            await job.done
            await self._until(engine.clock.now() + (0 if quick else startup.READY_S - 0.1))
            self._log.access("127.0.0.1:54798", "POST", "/generate", 200)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stop)
        engine.ready()
        self._log.server("The server is fired up and ready to roll!")

    def stop(self) -> None:
        """SIGTERM: no new health, running requests end, then everything is killed, this process last."""
        if self._stopping is None:
            self._log.server(SIGTERM_TEXT)
            self.engine.stopping = True
            self._stopping = asyncio.get_running_loop().create_task(self._stop())

    async def _stop(self) -> None:
        engine = self.engine
        # Its poll runs each five seconds, wherever it stands.
        await self._until(engine.clock.now() + STOP_POLL_S / 2)
        while True:
            engine.look()
            left = [job.rid for job in engine.batch.jobs]
            many = f"Remaining number of requests {len(left)}. Remaining requests remaining_rids={left}."
            self._log.server(f"Gracefully exiting... {many}")
            if not left or engine.unhealthy:
                break
            await self._until(engine.clock.now() + STOP_POLL_S)
        await self._until(engine.clock.now() + STOP_END_S)
        self._end()

    def break_down(self) -> None:
        """A graph replay failed: one rank's error, the others' echo, then the crash path."""
        engine = self.engine
        fault = engine.faults.replay or "illegal_access"
        size = engine.launch.axes.tp_size
        rank = dice("bad rank", engine.settings.seed, engine.launch.axes.budget) % size
        crash.replay_error(self._log, fault, rank)
        engine.ranks.kill(rank)
        others = [other for other in range(size) if other != rank]
        crash.secondary_errors(self._log, rank, others[:2])
        self._die()

    def bark(self) -> None:
        """No forward pass has ended for the watchdog's time."""
        limit = self.engine.launch.args["watchdog_timeout"]
        rank = self.engine.launch.axes.tp_size - 1
        self._log.rank(f"Scheduler watchdog timeout (self.watchdog_timeout={limit}, self.soft=False)", rank)
        self._die()

    def _child_changed(self) -> None:
        if not self._spawned:
            return
        engine = self.engine
        frozen = engine.ranks.stopped()
        if frozen != engine.frozen_ranks:
            engine.look()
            engine.frozen_ranks = frozen
            if not frozen:
                engine.moving.set()
            engine.look()
        if engine.ranks.crashed() is not None:
            asyncio.get_running_loop().call_later(NOTICE_REAL_S, self._child_gone)

    def _child_gone(self) -> None:
        gone = self.engine.ranks.crashed()
        if gone is None:
            return
        rank, pid, code = gone
        if not self._bound:
            self._log.raw("Traceback (most recent call last):")
            self._log.raw(f"RuntimeError: Rank {rank} scheduler died during initialization (exit code: {code}).")
            self.engine.ranks.kill()
            os._exit(1)
        crash.child_gone(self._log, rank, pid, code)
        self._die()

    def _die(self) -> NoReturn:
        """The crash path. Sleeping in the event loop is what freezes HTTP, here as in the real one."""
        engine = self.engine
        crash.sigquit(self._log)
        if engine.settings.pyspy_dump or engine.settings.coredump:
            crash.diagnostics_wait(self._log)
            self._frozen(DIAGNOSTICS_S)
            alive = engine.ranks.alive()
            if not alive:
                crash.no_schedulers(self._log)
            else:
                if engine.settings.pyspy_dump:
                    crash.pyspy(self._log, alive)
                if engine.settings.coredump:
                    crash.coredump_wait(self._log, COREDUMP_S)
                    self._frozen(COREDUMP_S)
        self._end()

    def _frozen(self, own_s: float) -> None:
        until = time.monotonic() + self.engine.clock.real(own_s)
        while (left := until - time.monotonic()) > 0:
            self._write(Load(memory=self._memory, spinning=True))
            time.sleep(min(STEP_S, left))

    def _out_of_memory(self, phase: str, available_gb: float) -> NoReturn:
        rank = dice("short rank", self.engine.settings.seed) % self.engine.launch.axes.tp_size
        crash.out_of_memory(self._log, phase, rank, available_gb)
        self._end()

    def _end(self) -> NoReturn:
        pid = os.getpid()
        crash.kill_tree(self._log, pid)
        self.engine.ranks.kill()
        self._write(Load())
        os.kill(pid, signal.SIGKILL)
        raise SystemExit  # not reached: nothing survives its own SIGKILL

    async def _tick(self) -> None:
        while True:
            self._write(self._load())
            await asyncio.sleep(STEP_S)

    def _load(self) -> Load:
        engine = self.engine
        if engine.batch.jobs:
            engine.look()
        busy, now = engine.counters.busy_s + engine.counters.prefill_busy_s, engine.batch.time
        span = max(1e-6, now - self._seen_at)
        share = min(1.0, (busy - self._seen_busy) / span) if now > self._seen_at else 0.0
        self._seen_busy, self._seen_at = busy, now
        running = engine.batch.running
        return Load(
            busy=share,
            running=running,
            tokens_per_s=engine.batch.gauges.throughput if running else 0.0,
            memory=self._memory,
            spinning=engine.frozen_ranks or engine.hung,
        )

    def _write(self, load: Load) -> None:
        path = self.engine.settings.state
        if path is not None:
            write_state(path, self._gpus.step(load))
