"""Whole gates on a virtual clock: each fault of the embedded engine at full strength is caught, its like is let be.

The tables of docs/gate.md are made by the same (`make gate-table`), with strengths and many more seeds.
"""

from __future__ import annotations

import random

import pytest

from ddtune.gate.model import Verdict
from tests.benchmarks.gate_table import ALIKE, FAULTS, STABLE, scenario, without_speculation
from tests.unit.virtual_gate import PRODUCTION, judged

SEED = random.SystemRandom().randrange(10**6)
CAUSES = {"hang": "hang"}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_caught_by_the_quick_or_the_full_gate(fault: str) -> None:
    print(f"seed {SEED}")
    one = judged(scenario(fault, 1.0), seed=SEED, stable=STABLE, stages=("quick", "full"), isolation=None)
    assert one.failed is not None
    assert one.failed.verdict is Verdict.FAIL
    assert one.failed.cause in {CAUSES.get(fault, "garbage_output"), "wrong_output"}
    assert one.tokens < 50_000


@pytest.mark.parametrize("kept", [False, True])
def test_a_sound_engine_whose_near_ties_flip_passes(kept: bool) -> None:
    print(f"seed {SEED}")
    reference = without_speculation(SEED) if kept else None
    for number in range(3):
        one = judged(STABLE, seed=SEED + number, stable=STABLE, sizes=ALIKE, reference=reference)
        assert one.caught is None, one.failed
        assert one.report.passed


@pytest.mark.parametrize(("budget", "flags"), [(16, "--disable-cuda-graph"), (None, "")])
def test_so_does_a_sound_engine_of_other_numerics(budget: int | None, flags: str) -> None:
    print(f"seed {SEED}")
    reference = without_speculation(SEED)
    one = judged(STABLE, seed=SEED, stable=STABLE, sizes=ALIKE, budget=budget, flags=flags, reference=reference)
    assert one.caught is None, one.failed


def test_the_gates_stay_within_their_times() -> None:
    """Of the engine's own clock at production's speed: 15 s for the quick gate, 3 minutes for the full one."""
    quick = judged(STABLE, seed=SEED, stable=STABLE, stages=("quick",), isolation=None)
    both = judged(STABLE, seed=SEED, stable=STABLE, stages=("quick", "full"), isolation=None, sizes=PRODUCTION)
    assert quick.report.passed
    assert quick.seconds <= 15
    assert both.report.passed
    assert both.seconds - quick.seconds <= 180
