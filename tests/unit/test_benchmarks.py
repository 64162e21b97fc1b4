"""The benchmarks still run; their numbers are looked at by people."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ddtune.config.resolve import resolve_host
from tests.benchmarks import dashboard
from tests.benchmarks.replay import replay
from tests.benchmarks.watching import watch
from tests.tui.embedded import serving


def test_a_short_replay() -> None:
    found = replay(600)
    assert found.lines > 500
    assert found.operator_lines_per_s > 0
    assert found.incidents <= 1


def test_a_short_watch_keeps_to_its_bytes() -> None:
    cost = watch(2.0, 5.0)
    assert cost.gpus == 8
    assert 0 < cost.bytes_per_s < 12_500


def test_a_short_look_at_the_dashboard_in_tmux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dashboard, "SETTLE_S", 1.0)
    monkeypatch.setattr(dashboard, "CAUGHT_S", 2.0)
    with serving(1, DDTUNE_SIM_TRAFFIC=dashboard.TRAFFIC) as host:
        found = dashboard.beside(host, tmp_path, 2.0, 0.0)
        lines = dashboard.caught(resolve_host(host))
    (cost, *_) = found["costs"]
    assert cost["name"] == "ddtune"
    assert cost["cpu_percent"] > 0
    assert cost["rss_mib"] < 150
    assert any("▼ least" in line for line in found["screen"])
    sampled = asyncio.run(dashboard.sampled(lines, 0.02))
    assert list(sampled) == ["0.001", "0.01", "0.02"]
