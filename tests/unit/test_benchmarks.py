"""The benchmarks still run; their numbers are looked at by people."""

from __future__ import annotations

from tests.benchmarks.replay import replay
from tests.benchmarks.watching import watch


def test_a_short_replay() -> None:
    found = replay(600)
    assert found.lines > 500
    assert found.operator_lines_per_s > 0
    assert found.incidents <= 1


def test_a_short_watch_keeps_to_its_bytes() -> None:
    cost = watch(2.0, 5.0)
    assert cost.gpus == 8
    assert 0 < cost.bytes_per_s < 12_500
