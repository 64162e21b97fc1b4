"""A bench for each test, on which stable answers rightly."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddtune.onhost import canary
from tests.unit.onhost_guard.fake import Bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(tmp_path)

    def answer(*_: object) -> str:
        if bench.unit.runs is None:
            raise canary.NotYetError("nothing listens")
        return "as ever"

    monkeypatch.setattr(canary, "try_once", answer)
    monkeypatch.setattr(canary, "abort_all", lambda *_: None)
    monkeypatch.setattr("ddtune.onhost.guard.LATE_LINES_S", 0.05)
    monkeypatch.setattr("ddtune.onhost.guard.UNIT_S", 0.02)
    return bench
