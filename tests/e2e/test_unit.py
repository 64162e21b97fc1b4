"""The guest's GPUs and the engine's unit, without ddtune."""

from __future__ import annotations

from ddtune.onhost import collect_smi
from tests.e2e.guest import Guest


def test_gpus_answer_the_collectors_query(shared_guest: Guest) -> None:
    shared_guest.install_unit()
    names = {key: names[0] for key, names in collect_smi.FIELDS.items()}
    command = [word for word in collect_smi.argv("nvidia-smi", 1, list(names.values())) if "--loop" not in word]
    rows = [collect_smi.parse_row(row, list(names)) for row in shared_guest.out(command).splitlines()]
    assert [row["index"] for row in rows if row] == list(range(8))
    assert {row["compute_capability"] for row in rows if row} == {"10.3"}
    assert all(row and row["power_w"] and row["memory_total_mib"] for row in rows)
