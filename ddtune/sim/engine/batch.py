"""The running batch, computed from event to event instead of step by step.

Every decoding request advances at the same rate, tok/s(C)/C, so one number ``_v`` (tokens a request would have made
since the start) orders all their ends. Between two events the rate is constant and everything counted grows linearly.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections import deque
from collections.abc import Callable

from ddtune.sim.engine import rates
from ddtune.sim.engine.axes import Axes
from ddtune.sim.engine.counters import Counters, Gauges
from ddtune.sim.engine.job import Job
from ddtune.sim.engine.vocabulary import dice

PREFILL_S = 0.008
PREFILL_TOKENS_PER_S = 60000.0
IDLE_ZERO_S = 10.0


class Batch:
    """Admits, prefills, decodes and ends requests. ``advance`` brings it to a time; nothing else moves it."""

    def __init__(self, axes: Axes, accept: float, counters: Counters, log_interval: int) -> None:
        self.axes = axes
        self.accept = accept
        self.counters = counters
        self.gauges = Gauges()
        self.time = 0.0
        self.still = False
        self.on_end: Callable[[Job], None] = lambda _job: None
        self.on_prefill: Callable[[Job], None] = lambda _job: None
        self.on_decode: Callable[[int], None] = lambda _running: None
        self.breaks: Callable[[int, float], bool] = lambda _running, _at: False
        self.broken = False
        # (tokens a request would have made, requests that decode from then on), where answers depend on the batch.
        self.crowds: deque[tuple[float, int]] | None = None
        self._interval = log_interval
        self._order = itertools.count()
        self._v = 0.0
        self._steps = 0.0
        self._waiting: deque[Job] = deque()
        self._prefilling: deque[Job] = deque()
        self._decoding: list[tuple[float, int, Job]] = []
        self._idle_since = 0.0
        self._rates: dict[int, tuple[float, float]] = {}

    @property
    def jobs(self) -> list[Job]:
        """Every request that has not ended, running ones first."""
        return [*(job for _, _, job in self._decoding), *self._prefilling, *self._waiting]

    @property
    def running(self) -> int:
        """Requests in the batch, prefilling ones included."""
        return len(self._decoding) + len(self._prefilling)

    @property
    def queued(self) -> int:
        """Requests that wait for a place in the batch."""
        return len(self._waiting)

    @property
    def tokens_in_use(self) -> int:
        """KV slots of the running requests."""
        decoding = sum(job.prompt_tokens + self.progress(job) for _, _, job in self._decoding)
        return decoding + sum(job.prompt_tokens for job in self._prefilling)

    def progress(self, job: Job) -> int:
        """Tokens that ``job`` has made by now."""
        if job.finished is not None:
            return job.produced
        if job.first_at is None or job.first_at > self.time:
            return 0
        return min(job.length, 1 + int(self._v - job.begin_v))

    def crowd(self, job: Job) -> Callable[[int], int]:
        """How many requests decoded when ``job`` made its token at a position; 1 where nobody keeps that."""
        crowds = [entry for entry in self.crowds or () if entry[0] >= job.begin_v - 1]
        begins = [entry[0] for entry in crowds]

        def at(position: int) -> int:
            found = bisect.bisect_right(begins, job.begin_v + max(0, position - 1))
            return max(1, crowds[found - 1][1]) if found else 1

        return at

    def submit(self, job: Job) -> None:
        """Queues ``job`` at the present time."""
        job.submitted = self.time
        self._waiting.append(job)
        self._admit()

    def set_accept(self, accept: float) -> None:
        """From now on so many tokens of a verify step are accepted."""
        self.accept = accept
        self._rates.clear()

    def abort(self, wanted: Callable[[Job], bool]) -> int:
        """Ends every request for which ``wanted`` holds; returns how many."""
        chosen = [job for job in self.jobs if wanted(job)]
        gone = set(map(id, chosen))
        for job in chosen:
            job.produced = self.progress(job)
            job.aborted = True
        self._waiting = deque(job for job in self._waiting if id(job) not in gone)
        self._prefilling = deque(job for job in self._prefilling if id(job) not in gone)
        self._decoding = [entry for entry in self._decoding if id(entry[2]) not in gone]
        heapq.heapify(self._decoding)
        for job in chosen:
            self._end(job)
        self.counters.aborted += len(chosen)
        self._admit()
        return len(chosen)

    def next_event(self, wanted: Callable[[Job], bool]) -> float | None:
        """The time of the next first token or end among requests for which ``wanted`` holds; None without one."""
        times = [job.first_at for job in self._prefilling if job.first_at is not None and wanted(job)]
        rate = self._rate(len(self._decoding))[0]
        ends = [end_v for end_v, _, job in self._decoding if wanted(job)]
        if ends:
            times.append(self.time + max(0.0, min(ends) - self._v) / rate)
        return min(times, default=None)

    def advance(self, now: float) -> None:
        """Brings the batch to ``now``; stands still while paused or hung, and stops for good when a pass breaks."""
        while not self.broken:
            if self.still:
                self._hold(now)
                return
            decoding = len(self._decoding)
            rate = self._rate(decoding)[0]
            end = self.time + max(0.0, self._decoding[0][0] - self._v) / rate if decoding else float("inf")
            first = self._prefilling[0].first_at if self._prefilling else None
            at = min(now, end, first if first is not None else float("inf"))
            self._pass_time(at, decoding)
            if decoding and self.breaks(decoding, at):
                self.broken = True
            elif at == end and decoding:
                self._end(heapq.heappop(self._decoding)[2])
                self._admit()
            elif first is not None and at == first:
                self._begin(self._prefilling.popleft())
            else:
                return

    def _count(self) -> None:
        if self.crowds is not None:
            self.crowds.append((self._v, len(self._decoding)))

    def _hold(self, now: float) -> None:
        late = now - self.time
        for job in self._prefilling:
            if job.first_at is not None:
                job.first_at += late
        self.time = now

    def _rate(self, decoding: int) -> tuple[float, float]:
        """Tokens a second of each request, and seconds of one step, with ``decoding`` of them."""
        if decoding not in self._rates:
            step = rates.step_s(self.axes, max(1, decoding))
            self._rates[decoding] = (self.accept / step, step)
        return self._rates[decoding]

    def _pass_time(self, at: float, decoding: int) -> None:
        spent = at - self.time
        self.time = at
        if not decoding:
            if not self.running and at - self._idle_since > IDLE_ZERO_S:
                self.gauges.running = self.gauges.queued = 0
                self.gauges.throughput = 0.0
                self.gauges.used_tokens = 0
            return
        rate, step = self._rate(decoding)
        self._v += spent * rate
        steps = spent / step
        counted = self.counters
        counted.busy_s += spent
        counted.decode_tokens += spent * rate * decoding
        if self.axes.in_graph(decoding):
            counted.decode_passes += steps
        else:
            counted.eager_passes += steps
        if self.axes.algorithm:
            counted.verify_steps += steps * decoding
        before = int(self._steps / self._interval)
        self._steps += steps
        if int(self._steps / self._interval) != before:
            self._write_gauges(decoding, rate)

    def _write_gauges(self, decoding: int, rate: float) -> None:
        gauges = self.gauges
        # Each interval accepts a little more or less than the mean; a collapsed one is exactly 1.00.
        wobble = (dice("interval", int(self._steps)) % 201 - 100) / 100
        accept = self.accept if self.accept == 1.0 else self.accept * (1 + 0.02 * wobble)
        gauges.running, gauges.queued = self.running, self.queued
        gauges.throughput = rate * decoding * accept / self.accept
        gauges.used_tokens = self.tokens_in_use
        gauges.cuda_graph = float(self.axes.in_graph(decoding))
        if self.axes.algorithm:
            gauges.accept_length = accept
            gauges.accept_rate = (accept - 1) / max(1, self.axes.budget)
        self.on_decode(decoding)

    def _admit(self) -> None:
        while self._waiting and self.running < self.axes.max_running:
            job = self._waiting.popleft()
            job.admitted = self.time
            fresh = job.prompt_tokens - job.cached
            behind = self._prefilling[-1].first_at if self._prefilling else None
            soonest = self.time + PREFILL_S
            job.first_at = max(soonest, behind or 0.0) + fresh / PREFILL_TOKENS_PER_S
            self._prefilling.append(job)
            self.gauges.cuda_graph = 0.0
            self.on_prefill(job)

    def _begin(self, job: Job) -> None:
        job.begin_v = self._v
        job.signal(job.first)
        if job.length <= 1:
            self._end(job)
            self._admit()
        else:
            heapq.heappush(self._decoding, (self._v + job.length - 1, next(self._order), job))
            self._count()

    def _end(self, job: Job) -> None:
        if not job.aborted:
            job.produced = job.length
        job.finished = self.time
        self._count()
        self._idle_since = self.time
        job.signal(job.first)
        job.signal(job.done)
        self.on_end(job)
