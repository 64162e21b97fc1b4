from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ddtune.onhost import collect_unit
from ddtune.onhost.collect_unit import Unit
from ddtune.onhost.inspect_process import schedulers
from ddtune.onhost.paths import Install, Paths
from ddtune.onhost.unit import Systemctl
from tests.e2e.guest import wait_until
from tests.unit.collector_box import box


def test_where_no_cgroup_is_seen_all_of_proc_is_read_only_when_a_scheduler_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []

    def counted(pid: int) -> list[dict[str, object]]:
        reads.append(pid)
        return schedulers(pid)

    monkeypatch.setattr(collect_unit, "schedulers", counted)
    with box(tmp_path) as made:
        assert made.engine is not None
        unit = Unit(Systemctl(Install(systemctl=str(tmp_path / "systemctl"))), Paths(str(made.root)), "engine.service")

        def alive() -> int:
            line = unit.line()
            assert line is not None
            return int(line["schedulers"])

        wait_until("both schedulers are there", lambda: alive() == 2)
        before = len(reads)
        assert [alive() for _ in range(3)] == [2, 2, 2]
        assert len(reads) == before
        os.kill(schedulers(made.engine.pid)[0]["pid"], signal.SIGKILL)
        wait_until("one is missing", lambda: alive() == 1)
        assert len(reads) > before
