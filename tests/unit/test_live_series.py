"""The last hour as series: what was read, when it was read, and nothing where nothing was."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from ddtune.engine.model import Incident
from ddtune.gpu.model import GpuReading
from ddtune.live.series import WINDOWS_S, Series, Window
from ddtune.live.snapshot import Ages, Link, ServiceReading, Snapshot

BEGAN = 1_800_000_000.0


def moment(after_s: float, *, watts: float = 400.0, rate: float | None = 300.0, tick_s: float = 1.0) -> Snapshot:
    gpus = tuple(GpuReading(index, f"GPU-{index}", "", "B300", power_w=watts + index) for index in range(8))
    service = ServiceReading(tokens_per_s=rate, accept_length=4.4, running=3, queued=0, invocation="a")
    return Snapshot("b300", BEGAN + after_s, Link("up"), gpus, "nvml", service, Ages(0.0, 0.0, 0.0), tick_s=tick_s)


def filled(seconds: float, tick_s: float = 1.0) -> Series:
    series = Series()
    for number in range(int(seconds / tick_s)):
        series.take(moment(number * tick_s, tick_s=tick_s))
    return series


@pytest.mark.parametrize("tick_s", [0.5, 1.0])
def test_each_window_is_whole_once_its_time_has_passed(tick_s: float) -> None:
    series = filled(3610, tick_s)
    for length_s in WINDOWS_S:
        window = series.window(length_s, BEGAN + 3610 - tick_s)
        assert window.step_s * window.count == pytest.approx(length_s)
        _is_whole(window)


def _is_whole(window: Window) -> None:
    for channel in ("gpu0", "gpu7", "node", "tokens_per_s", "accept_length", "running", "queued"):
        assert None not in window.mean[channel][1:]
    assert set(window.mean["gpu3"]) - {None} == {403.0}
    assert window.mean["node"][-1] == pytest.approx(sum(400.0 + index for index in range(8)))


def test_what_was_not_read_is_a_gap_and_jitter_is_none() -> None:
    series = Series()
    for second in (0.0, 1.1, 1.9, 3.2, 20.0, 21.0):
        series.take(moment(second))
    series.take(moment(22.0, rate=None))
    window = series.window(60, BEGAN + 22.0)
    values = window.mean["tokens_per_s"][-44:]
    assert None not in values[:6]
    assert set(values[8:39]) == {None}
    assert None not in values[39:42]
    assert values[-1] is None
    assert window.mean["gpu0"][-1] == 400.0


def test_a_reading_counts_once_however_often_it_is_published() -> None:
    series = Series()
    for late in (0.0, 0.05, 0.3, 0.45):
        series.take(replace(moment(late, watts=400.0 + 100 * late), ages=Ages(late, late, 0.0)))
    window = series.window(60, BEGAN)
    assert window.mean["gpu0"][-1] == window.high["gpu0"][-1] == 400.0


def test_extremes_survive_in_a_long_window() -> None:
    series = Series()
    for second in range(1800):
        series.take(moment(second, watts=900.0 if second == 900 else 400.0))
    window = series.window(3600, BEGAN + 1799)
    assert max(value for value in window.high["gpu0"] if value is not None) == 900.0
    assert max(value for value in window.mean["gpu0"] if value is not None) < 500.0


def test_restarts_switches_and_incidents_are_marked_once() -> None:
    series = Series()
    one = moment(10.0)
    history = ({"at": BEGAN + 4, "event": "swapped", "to": {"profile": "b12"}}, {"at": BEGAN + 3, "event": "armed"})
    incident = Incident("illegal_memory_access", BEGAN + 6, ())
    for _ in range(3):
        series.take(replace(one, history=history, incidents=(incident,)))
    series.take(replace(moment(11.0), service=replace(one.service, invocation="b")))
    marks = series.window(60, BEGAN + 12).marks
    assert [(mark.kind, mark.at - BEGAN) for mark in marks] == [("switch", 4.0), ("incident", 6.0), ("restart", 11.0)]
    assert series.window(60, BEGAN + 100).marks == ()


def test_a_lost_gpu_ends_its_line_and_no_others() -> None:
    series = filled(10)
    one = moment(10.0)
    series.take(replace(one, gpus=(replace(one.gpus[0], lost=True, power_w=None), *one.gpus[1:])))
    window = series.window(60, BEGAN + 10)
    assert window.mean["gpu0"][-1] is None
    assert window.mean["gpu1"][-1] == 401.0


def test_memory_is_flat_after_an_hour() -> None:
    series = filled(3700)
    tracemalloc.start()
    try:
        for number in range(3700, 5000):
            series.take(moment(number))
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert sum(len(tier.buckets) for tier in series._tiers.values()) <= 4 * 300
    # What was replaced since the counting began is counted as new, and the old is not taken off.
    assert grown < 2_500_000


def test_cleared_is_as_new() -> None:
    series = filled(100)
    series.clear()
    assert series.window(300, BEGAN + 100).mean == {}
    series.take(moment(1.0))
    assert series.window(300, BEGAN + 1).mean["gpu0"][-1] == 400.0
