"""What is noted of a profile while it is watched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ddtune.live.measured import noted, read, write
from ddtune.live.snapshot import Link, ServiceReading, Snapshot

SERVICE = ServiceReading(health="serving", profile="b8-nvls", invocation="x", accept_length=4.48)


def seen(running: int, rate: float, **fields: object) -> Snapshot:
    return Snapshot("b300", 100.0, Link("up"), service=replace(SERVICE, running=running, tokens_per_s=rate, **fields))


def test_a_rate_counts_where_the_load_stays_the_same() -> None:
    known = noted({}, seen(1, 300.0), seen(1, 303.0))
    assert known["b8-nvls"].tokens_per_s_1 == 303.0
    known = noted(known, seen(126, 4700.0), seen(130, 4723.0))
    assert (known["b8-nvls"].tokens_per_s_1, known["b8-nvls"].tokens_per_s_128) == (303.0, 4723.0)
    assert known["b8-nvls"].accept_length == 4.48
    assert noted(known, seen(1, 5.0), seen(60, 6.0))["b8-nvls"].tokens_per_s_1 == 303.0


def test_another_run_or_a_service_that_does_not_serve_says_nothing() -> None:
    assert noted({}, seen(1, 300.0), seen(1, 303.0, invocation="y")) == {}
    assert noted({}, seen(1, 300.0), seen(1, 303.0, profile="b16")) == {}
    assert noted({}, seen(1, 300.0), seen(1, 303.0, health="starting")) == {}


def test_the_numbers_of_each_host_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    assert read(path, "b300") == {}
    known = noted({}, seen(1, 300.0), seen(1, 303.0))
    write(path, "b300", known)
    write(path, "b300-2", {})
    assert read(path, "b300") == known
    path.write_text("[broken")
    assert read(path, "b300") == {}
