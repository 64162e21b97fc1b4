"""The serving engine: what runs, what is counted, what is logged, and when it stands still or breaks."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import replace

from ddtune.sim.engine import lines, rates
from ddtune.sim.engine.answers import Written, answer
from ddtune.sim.engine.batch import Batch
from ddtune.sim.engine.clock import Clock
from ddtune.sim.engine.continuation import seed_of
from ddtune.sim.engine.counters import Counters
from ddtune.sim.engine.faults import Faults
from ddtune.sim.engine.job import Job
from ddtune.sim.engine.launch import TOKEN_CAPACITY, Launch
from ddtune.sim.engine.lines import Log
from ddtune.sim.engine.params import Ask
from ddtune.sim.engine.parting import LONG_TOKENS, Spoken
from ddtune.sim.engine.ranks import Ranks
from ddtune.sim.engine.settings import Settings
from ddtune.sim.engine.traffic import Traffic
from ddtune.sim.engine.vocabulary import dice, tokens

# At most this long between two looks while something runs; log lines are not closer than LOG_REAL_S.
LOOK_REAL_S, LOG_REAL_S = 0.25, 0.5
CACHED_PROMPTS, KEPT_CROWDS = 4096, 4096


class Engine:
    """Owns the batch and its clock. ``starting``, ``unhealthy``, ``paused`` and ``stopping`` are what /ready asks."""

    def __init__(
        self, launch: Launch, settings: Settings, faults: Faults, log: Log, clock: Clock | None = None
    ) -> None:
        self.launch, self.settings, self.faults, self.log = launch, settings, faults, log
        self.clock = clock or Clock(settings.speed)
        self.counters = Counters()
        self.accept = rates.accept_length(launch.axes) if faults.accept is None else faults.accept
        self.batch = Batch(launch.axes, self.accept, self.counters, int(launch.args["decode_log_interval"]))
        self.batch.on_end = self._ended
        self.batch.on_prefill = self._prefilled
        self.batch.on_decode = self._decoded
        self.batch.breaks = self._breaks
        if faults.parting.any():
            self.batch.crowds = deque(maxlen=KEPT_CROWDS)
        self.ranks = Ranks(launch.axes.tp_size)
        self.traffic = Traffic(settings.traffic, settings.seed)
        self.starting = True
        self.unhealthy = False
        self.paused = False
        self.stopping = False
        self.frozen_ranks = False
        self.hung = False
        self.moving = asyncio.Event()
        self.ready_at: float | None = None
        self.published = time.time()
        self.last_heartbeat = time.strftime("%H:%M:%S")
        self.on_break: Callable[[], None] = lambda: None
        self.on_watchdog: Callable[[], None] = lambda: None
        self._stuck_since: float | None = None
        self._served = 0
        self._asked = 0
        self._poisoned = False
        self._faded = False
        self._salt = 0
        self._cache: OrderedDict[int, int] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._logged: dict[str, float] = {}

    @property
    def still(self) -> bool:
        """Whether no token is made: paused, hung, or a rank is stopped."""
        return self.paused or self.hung or self.frozen_ranks

    def variant(self) -> str:
        """Names the numerics: engines that share it break near-ties the same way."""
        axes = self.launch.axes
        return f"{axes.algorithm}-{axes.budget}-{axes.graphs}" if axes.algorithm else "plain"

    def look(self) -> None:
        """Brings everything to the present and plans the next look."""
        now = self.clock.now()
        self.batch.still = self.still
        self._fade(now)
        self._top_up()
        self.batch.advance(now)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.batch.broken:
            self.on_break()
            return
        self._watch(now)
        if not self.batch.jobs and not (self.traffic.mean and self.ready_at is not None and not self.stopping):
            return
        due = self.batch.next_event(lambda job: job.texts is not None)
        wait = LOOK_REAL_S if due is None or self.still else min(LOOK_REAL_S, self.clock.real(due - now))
        self._timer = asyncio.get_running_loop().call_later(max(0.0005, wait), self.look)

    def ready(self) -> None:
        """Serving begins, and with it the engine's own traffic."""
        self.starting = False
        self.look()
        self.ready_at = self.clock.now()
        self.look()

    def submit(self, ask: Ask, *, salted: bool = True) -> Job:
        """Begins the generation that ``ask`` describes."""
        loop = asyncio.get_running_loop()
        if ask.sampled and ask.seed is None and salted:
            self._salt += 1
        salt: object = (self._salt if ask.seed is None else ask.seed) if ask.sampled else ""
        late = self.faults.garbage_after is not None and self._served >= self.faults.garbage_after
        late = late and dice("late", self.settings.seed, ask.prompt) % 1000 < 1000 * self.faults.garbage_share
        output = "garbage" if late else self.faults.output
        written = answer(
            ask.prompt,
            ask.limit,
            output=output,
            seed=self.settings.seed,
            variant=self.variant(),
            endless=ask.endless,
            salt=salt,
        )
        spoken = self._spoken(ask, written, salt)
        made, ended = written.tokens, written.ended
        if spoken is not None and spoken.empty():
            made, ended = [], True
        if ask.chat and made and output != "garbage":
            made = [made[0].lstrip(" "), *made[1:]] if made[0].strip() else made
        text, stopped_by = "".join(made), None
        found = [(at, stop) for stop in ask.stops if (at := text.find(stop)) >= 0]
        if found:
            at, stopped_by = min(found)
            made, ended = tokens(text[:at]), True
        if spoken is not None:
            spoken = replace(spoken, alone=tuple(made))
        spread = 0.0 if self.accept == 1.0 else (dice("accept", ask.prompt) % 200 - 100) / 100 * 0.05
        job = Job(
            rid=ask.rid or f"{dice(ask.prompt, self._served, self._salt):08x}{time.time_ns() & (1 << 96) - 1:024x}",
            prompt_tokens=ask.prompt_tokens,
            length=max(1, len(made) + (1 if ended else 0)),
            accept=max(1.0, self.accept * (1 + spread)),
            cached=self._cached(ask),
            stream=ask.stream,
            texts=tuple(made),
            spoken=spoken,
            known=written.other is None,
            ended=ended,
            stopped_by=stopped_by,
            first=loop.create_future(),
            done=loop.create_future(),
            received_wall=time.time(),
        )
        self.look()
        self.batch.submit(job)
        self.look()
        return job

    def said(self, job: Job, produced: int) -> tuple[str, ...]:
        """The first ``produced`` tokens of ``job`` as the batch made them."""
        if job.spoken is None:
            return (job.texts or ())[:produced]
        return job.spoken.tokens(self.batch.crowd(job), min(produced, len(job.texts or ())))

    def abort(self, wanted: Callable[[Job], bool]) -> int:
        """Ends the requests for which ``wanted`` holds; returns how many."""
        self.look()
        self.traffic.cut(self.batch.time)
        count = self.batch.abort(wanted)
        self.look()
        return count

    def flush(self) -> bool:
        """Empties the prefix cache; False while requests run or wait."""
        self.look()
        if self.batch.jobs:
            return False
        self._cache.clear()
        return True

    def _spoken(self, ask: Ask, written: Written, salt: object) -> Spoken | None:
        """What the batch may make of an answer, where this engine's answers part at all."""
        if not self.faults.parting.any() or self.starting:
            return None
        self._asked += 1
        other = None if ask.chat or ask.stops else written.other
        return Spoken(
            parting=self.faults.parting,
            seed=self.settings.seed,
            number=self._asked,
            prompt=ask.prompt,
            context=ask.prompt_tokens,
            alone=tuple(written.tokens),
            text_seed=seed_of(ask.prompt, salt),
            other=other,
            poisoned=self._poisoned,
        )

    def _poison(self) -> None:
        """From here on nothing that this process answers is right, and no draft is accepted."""
        self._poisoned = True
        self._accepts(1.0)

    def _accepts(self, accept: float) -> None:
        self.accept = accept
        self.batch.set_accept(accept)

    def _fade(self, now: float) -> None:
        """Answers stay right, and fewer drafts are accepted."""
        after = self.faults.fades_after_s
        if after is not None and not self._faded and self.ready_at is not None and now - self.ready_at >= after:
            self._faded = True
            self._accepts(1 + self.faults.fades_to * (self.accept - 1))

    def _cached(self, ask: Ask) -> int:
        if self.launch.args["disable_radix_cache"]:
            return 0
        found = self._cache.pop(ask.cache_key, 0)
        self._cache[ask.cache_key] = ask.prompt_tokens
        if len(self._cache) > CACHED_PROMPTS:
            self._cache.popitem(last=False)
        return max(0, min(found, ask.prompt_tokens) - 1)

    def _top_up(self) -> None:
        """Gives the batch as many requests of its own as there should be."""
        if not self.traffic.mean or self.ready_at is None or self.stopping or self.still:
            return
        have = sum(1 for job in self.batch.jobs if job.texts is None)
        for _ in range(self.traffic.wanted(self.clock.now()) - have):
            self.batch.submit(self.traffic.job(self.accept))

    def _watch(self, now: float) -> None:
        """The schedulers' own watchdog. One that is stopped cannot bark; the other ranks' can."""
        stuck = self.batch.jobs and (self.hung or (self.frozen_ranks and self.launch.axes.tp_size > 1))
        if not stuck:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = now
        elif now - self._stuck_since > float(self.launch.args["watchdog_timeout"]):
            self.on_watchdog()

    def _breaks(self, running: int, at: float) -> bool:
        since = None if self.ready_at is None else at - self.ready_at
        if self.faults.crash_after_s is not None and since is not None and since >= self.faults.crash_after_s:
            return True
        return self.faults.breaks(self.launch.axes, running, since)

    def _ended(self, job: Job) -> None:
        counted = self.counters
        if job.health:
            return
        if job.spoken is not None:
            job.texts, job.spoken = self.said(job, job.produced), None
        if self.faults.parting.poison and job.prompt_tokens > LONG_TOKENS and not self._poisoned:
            self._poison()
        if job.texts is not None and self.ready_at is not None:
            self._served += 1
            if self.faults.hang_after is not None and self._served >= self.faults.hang_after:
                self.hung = True
                self.moving.clear()
        if job.aborted or job.first_at is None or job.finished is None:
            return
        if job.texts is None and self.ready_at is not None and not self.stopping and not self.still:
            have = sum(1 for other in self.batch.jobs if other.texts is None)
            if have < self.traffic.wanted(self.batch.time):
                self.batch.submit(self.traffic.job(self.accept))
        counted.requests[job.stream] += 1
        counted.prompt_tokens[job.stream] += job.prompt_tokens
        counted.generated[job.stream] += job.produced
        if self.launch.axes.algorithm:
            counted.verify_calls += job.verify_calls
        counted.ttft[job.stream].add(job.first_at - job.submitted)
        counted.e2e[job.stream].add(job.finished - job.submitted)
        if job.produced > 1:
            gap = (job.finished - job.first_at) / (job.produced - 1)
            counted.tpot[job.stream].add(gap)
            counted.itl.add(gap, job.produced - 1)
        counted.prompt_length.add(job.prompt_tokens)
        counted.uncached_length.add(job.prompt_tokens - job.cached)
        counted.generated_length.add(job.produced)

    def _prefilled(self, job: Job) -> None:
        counted, fresh = self.counters, job.prompt_tokens - job.cached
        took = (job.first_at or 0.0) - self.batch.time
        graph = self.launch.axes.prefill_graphs and fresh > 1
        counted.passes["prefill_cuda_graph" if graph else "prefill_none"] += 1
        counted.prefill_tokens += fresh
        counted.cached_tokens += job.cached
        counted.prefill_busy_s += took
        counted.queue.add(max(0.0, self.batch.time - job.submitted))
        counted.process_stage.add(0.0002)
        counted.prefill_stage.add(took)
        whole = counted.prefill_tokens + counted.cached_tokens
        self.batch.gauges.cache_hit_rate = counted.cached_tokens / whole if whole else 0.0
        if self._may_log("prefill"):
            self.log.rank(
                lines.prefill(
                    new=fresh,
                    cached=job.cached,
                    usage=self.batch.tokens_in_use / TOKEN_CAPACITY,
                    running=self.batch.running - 1 if self.batch.running else 0,
                    queued=self.batch.queued,
                    graph=graph,
                    throughput=fresh / took if took > 0 else 0.0,
                )
            )

    def _decoded(self, running: int) -> None:
        if not self._may_log("decode"):
            return
        gauges = self.batch.gauges
        self.log.rank(
            lines.decode(
                self.launch.axes,
                running=running,
                used=gauges.used_tokens,
                usage=gauges.used_tokens / TOKEN_CAPACITY,
                queued=gauges.queued,
                throughput=gauges.throughput,
                accept=gauges.accept_length,
                graph=bool(gauges.cuda_graph),
            )
        )

    def _may_log(self, kind: str) -> bool:
        now = time.monotonic()
        if now - self._logged.get(kind, 0.0) < LOG_REAL_S:
            return False
        self._logged[kind] = now
        return True
