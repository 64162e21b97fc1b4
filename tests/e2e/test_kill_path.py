"""An engine that died and lingers with its port open for longer than anybody should wait."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e.service import Service, adopted

FATAL = "illegal memory access"


@pytest.mark.timeout(300)
def test_lingering_engine_is_killed(tmp_path: Path, numbers: dict[str, float]) -> None:
    """Its clock is slow enough that it would end by itself only after 65 / 6 seconds."""
    slow = {"DDTUNE_SIM_SPEED": "6", "DDTUNE_SIM_WARM": "1", "DDTUNE_SIM_TRAFFIC": "12"}
    with adopted(tmp_path, **slow) as service:
        began = time.monotonic()
        code, answer = service.switch("b12", "--force")
        assert (code, answer["outcome"], answer["cause"]) == (3, "rolled_back", "illegal_memory_access"), answer
        assert service.runs("8")
        begun, stopped = kill_path(service, began)
    numbers["fatal line to rollback begun"] = begun
    numbers["fatal line to stopped"] = stopped
    assert begun < 1
    assert 5 < stopped < 10, "it lingered, and was killed after its grace"


def kill_path(service: Service, began: float) -> tuple[float, float]:
    """Seconds from the fatal line to the stop's begin and to its end, by systemd's own lines in the journal."""
    journal = [(at, text) for at, text in service.journal() if at > began]
    died = min(at for at, text in journal if FATAL in text.lower())
    stopping = min(at for at, text in journal if text.startswith("Stopping ") and at > died)
    stopped = min(at for at, text in journal if text.startswith("Stopped ") and at > stopping)
    return stopping - died, stopped - died
