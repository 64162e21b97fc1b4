"""The batch moves from event to event, with an injected time."""

from __future__ import annotations

import pytest

from ddtune.sim.engine.axes import Axes
from ddtune.sim.engine.batch import IDLE_ZERO_S, Batch
from ddtune.sim.engine.counters import Counters
from ddtune.sim.engine.job import Job
from ddtune.sim.engine.rates import tokens_per_s
from ddtune.sim.engine.traffic import RETRY_S, Traffic

B8 = Axes("DDTREE", 8, nvls=True, graph_max_bs=128, max_running=128)


def _batch(axes: Axes = B8, accept: float = 4.48) -> Batch:
    return Batch(axes, accept, Counters(), 40)


def _job(name: str, length: int, prompt: int = 100) -> Job:
    return Job(name, prompt, length, 4.48)


@pytest.mark.parametrize("running", [1, 2, 8, 32, 128])
def test_requests_take_their_tokens_over_the_batch_speed(running: int) -> None:
    batch = _batch()
    jobs = [_job(str(index), 400) for index in range(running)]
    for job in jobs:
        batch.submit(job)
    batch.advance(1000.0)
    took = max(job.finished or 0 for job in jobs)
    assert 400 * running / took == pytest.approx(tokens_per_s(B8, running), rel=0.05)


def test_a_long_jump_equals_many_small_ones() -> None:
    one, many = _batch(), _batch()
    for batch in (one, many):
        for index in range(20):
            batch.submit(_job(str(index), 50 + 10 * index))
    one.advance(5.0)
    for step in range(1, 501):
        many.advance(step / 100)
    assert one.counters.decode_tokens == pytest.approx(many.counters.decode_tokens)
    assert one.counters.decode_passes == pytest.approx(many.counters.decode_passes)
    assert one.running == many.running


def test_no_more_run_than_may_and_the_rest_wait_in_order() -> None:
    batch = _batch(Axes("DDTREE", 8, nvls=True, graph_max_bs=4, max_running=4))
    jobs = [_job(str(index), 100) for index in range(6)]
    for job in jobs:
        batch.submit(job)
    assert (batch.running, batch.queued) == (4, 2)
    batch.advance(100.0)
    ends = [job.finished or 0.0 for job in jobs]
    assert ends == sorted(ends)
    assert (jobs[5].admitted or 0.0) >= min(ends)


def test_passes_are_counted_by_whether_a_graph_covers_the_batch() -> None:
    batch = _batch(Axes("DDTREE", 8, nvls=True, graph_max_bs=2, max_running=8))
    batch.submit(_job("a", 200))
    batch.advance(0.3)
    assert batch.counters.decode_passes > 0
    assert batch.counters.eager_passes == 0
    for name in "bcd":
        batch.submit(_job(name, 200))
    batch.advance(1.0)
    assert batch.counters.eager_passes > 0


def test_gauges_are_written_each_forty_steps_and_accept_length_stays_when_idle() -> None:
    batch = _batch()
    batch.submit(_job("a", 100))
    batch.advance(0.2)
    assert batch.gauges.throughput == 0.0
    batch.submit(_job("b", 2000))
    batch.advance(3.0)
    assert batch.gauges.throughput == pytest.approx(303, rel=0.05)
    assert batch.gauges.cuda_graph == 1.0
    batch.advance(60.0)
    held = batch.gauges.accept_length
    assert held == pytest.approx(4.48, rel=0.05)
    batch.advance(60.0 + IDLE_ZERO_S)
    assert (batch.gauges.throughput, batch.gauges.running) == (0.0, 0)
    assert batch.gauges.accept_length == held


def test_the_graph_gauge_lies_after_a_prefill() -> None:
    batch = _batch()
    batch.submit(_job("a", 4000))
    batch.advance(2.0)
    assert batch.gauges.cuda_graph == 1.0
    batch.submit(_job("b", 10))
    assert batch.gauges.cuda_graph == 0.0


def test_collapsed_accept_length_is_exactly_one() -> None:
    batch = _batch(accept=1.0)
    job = Job("a", 10, 500, 1.0)
    batch.submit(job)
    batch.advance(100.0)
    assert batch.gauges.accept_length == 1.0
    assert job.verify_calls == job.produced == 500


def test_nothing_moves_while_still() -> None:
    batch = _batch()
    job = _job("a", 300)
    batch.submit(job)
    batch.advance(0.5)
    before = batch.progress(job)
    batch.still = True
    batch.advance(50.0)
    assert batch.progress(job) == before
    batch.still = False
    batch.advance(50.6)
    assert job.finished == pytest.approx(50.5, abs=0.1)


def test_abort_ends_what_is_asked_and_makes_room() -> None:
    batch = _batch(Axes("DDTREE", 8, nvls=True, graph_max_bs=1, max_running=1))
    ended: list[str] = []
    batch.on_end = lambda job: ended.append(job.rid)
    first, second = _job("first", 400), _job("second", 400)
    batch.submit(first)
    batch.submit(second)
    batch.advance(0.5)
    assert batch.abort(lambda job: job.rid == "first") == 1
    assert ended == ["first"]
    assert 0 < first.produced < 400
    assert second.admitted == 0.5
    assert batch.counters.aborted == 1


def test_a_breaking_pass_stops_the_batch_at_its_time() -> None:
    batch = _batch()
    batch.breaks = lambda running, at: running >= 8 and at > 0.1
    for index in range(8):
        batch.submit(_job(str(index), 900))
    batch.advance(10.0)
    assert batch.broken


def test_traffic_wanders_around_its_mean_and_comes_back_after_a_cut() -> None:
    traffic = Traffic(24, seed=0)
    seen = [traffic.wanted(second / 5) for second in range(3000)]
    assert sum(seen) / len(seen) == pytest.approx(24, abs=2)
    assert min(seen) >= 12
    assert max(seen) <= 36
    traffic.cut(100.0)
    assert traffic.wanted(100.0 + RETRY_S / 2) == 0
    assert traffic.wanted(100.0 + RETRY_S) > 0
