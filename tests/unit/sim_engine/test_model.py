"""Speeds, accept lengths, faults and GPUs as pure functions of the axes."""

from __future__ import annotations

import pytest

from ddtune.sim.engine.axes import Axes
from ddtune.sim.engine.faults import LARGE_REPLAY, SETTLED_S, faults
from ddtune.sim.engine.gpus import Gpus, Load
from ddtune.sim.engine.rates import accept_length, tokens_per_s

B8 = Axes(algorithm="DDTREE", budget=8, nvls=True, graph_max_bs=128, max_running=128)
PLAIN = Axes(nvls=True, graph_max_bs=128, max_running=128)


def _tree(budget: int, *, graphs: bool = True, nvls: bool = True, largest: int = 128) -> Axes:
    return Axes("DDTREE", budget, graphs=graphs, nvls=nvls, graph_max_bs=largest if graphs else 0, max_running=128)


@pytest.mark.parametrize(
    ("axes", "running", "expected"),
    [
        (B8, 1, 303),
        (B8, 128, 4723),
        (_tree(8, nvls=False), 1, 285),
        (_tree(16, graphs=False), 1, 111),
        (PLAIN, 1, 141),
    ],
)
def test_recorded_speeds(axes: Axes, running: int, expected: float) -> None:
    assert tokens_per_s(axes, running) == pytest.approx(expected, rel=0.01)


def test_recorded_accept_lengths() -> None:
    assert accept_length(B8) == pytest.approx(4.48)
    assert 5.3 <= accept_length(_tree(16, graphs=False)) <= 6.4
    assert accept_length(PLAIN) == 1.0


def test_accept_length_grows_with_the_budget_and_the_gap_of_eager_narrows() -> None:
    lengths = [accept_length(_tree(budget)) for budget in (1, 2, 4, 8, 12, 16, 24, 32)]
    assert lengths == sorted(lengths)
    eager = _tree(16, graphs=False)
    assert tokens_per_s(B8, 1) / tokens_per_s(eager, 1) > 1.5 * tokens_per_s(B8, 128) / tokens_per_s(eager, 128)


def test_a_batch_beyond_the_graphs_runs_at_eager_speed() -> None:
    narrow = _tree(8, largest=16)
    assert tokens_per_s(narrow, 16) > tokens_per_s(narrow, 17)


@pytest.mark.parametrize("budget", [9, 12, 14, 16, 23])
def test_middle_budgets_break_at_a_large_replay_after_ready(budget: int) -> None:
    axes = _tree(budget)
    found = faults(axes, "b300", "")
    assert found.breaks(axes, LARGE_REPLAY, SETTLED_S)
    assert not found.breaks(axes, LARGE_REPLAY - 1, 100)
    assert not found.breaks(axes, LARGE_REPLAY, 0.5)
    assert not found.breaks(axes, LARGE_REPLAY, None)


def test_a_batch_that_no_graph_covers_cannot_break_a_replay() -> None:
    axes = _tree(12, largest=4)
    assert not faults(axes, "b300", "").breaks(axes, 8, 100)


@pytest.mark.parametrize("budget", [24, 32, 47])
def test_wide_budgets_answer_garbage_at_accept_length_one(budget: int) -> None:
    found = faults(_tree(budget), "b300", "")
    assert (found.output, found.accept, found.replay) == ("garbage", 1.0, None)


def test_the_widest_budgets_break_at_the_first_replay() -> None:
    axes = _tree(64)
    assert faults(axes, "b300", "").breaks(axes, 1, None)


@pytest.mark.parametrize("budget", [8, 14, 32, 64])
def test_nothing_breaks_without_graphs_or_on_other_gpus(budget: int) -> None:
    eager = _tree(budget, graphs=False)
    assert faults(eager, "b300", "") == faults(B8, "b300", "")
    assert faults(_tree(budget), "rtx-pro-6000", "") == faults(B8, "b300", "")


def test_scenarios_add_faults_where_their_condition_holds() -> None:
    assert faults(B8, "b300", "hang:3").hang_after == 3
    assert faults(B8, "b300", "@budget>=12:garbage").output == "right"
    assert faults(_tree(12, graphs=False), "b300", "@budget>=12:garbage").output == "garbage"
    assert faults(_tree(12, graphs=False), "b300", "@graphs==off:empty").parting.empty == 1
    assert faults(PLAIN, "b300", "@algorithm==none:oom_weights").start == "oom_weights"
    both = faults(B8, "b300", "accept_one, crash_after:7")
    assert (both.accept, both.crash_after_s) == (1.0, 7.0)


@pytest.mark.parametrize("scenario", ["sabotage", "@budget~3:hang", "@colour==red:hang"])
def test_an_unknown_scenario_is_refused(scenario: str) -> None:
    with pytest.raises(ValueError, match="DDTUNE_SIM_SCENARIO"):
        faults(B8, "b300", scenario)


def test_power_is_as_recorded_and_each_gpu_a_little_different() -> None:
    gpus = Gpus(B8, seed=0, mem_fraction=0.85)
    for _ in range(40):
        idle = gpus.step(Load(memory=2.0))
    for one in idle:
        assert 150 <= one["power_w"] <= 180
        assert one["util"] == 0
    for running in (1, 32, 128):
        for _ in range(40):
            busy = gpus.step(Load(busy=1.0, running=running, tokens_per_s=tokens_per_s(B8, running), memory=2.0))
        for one in busy:
            assert 360 <= one["power_w"] <= 460
            assert one["util"] == 100
            assert 3 < one["dram_util"] < 15
            assert one["temperature_c"] > 40
        assert len({one["power_w"] for one in busy}) > 4


def test_memory_fills_with_weights_and_cache() -> None:
    gpus = Gpus(B8, seed=0, mem_fraction=0.85)
    used = [gpus.step(Load(memory=share))[0]["memory_used_mib"] for share in (0.0, 0.5, 1.0, 2.0)]
    assert used == sorted(used)
    assert used[0] < 1000
    assert used[-1] == pytest.approx(0.85 * 281_600, rel=0.02)
