"""What the operator's side sends to be kept of an operation."""

from __future__ import annotations

import json

from tests.unit.onhost_helper.host import Host, mode

OP = "0001-b12"


def test_lines_are_dated_by_the_host(host: Host) -> None:
    host.adopted("--api-key", "sk-secret-1")
    host.ok("keep", op=OP, answers=[{"text": "one", "ago_s": 10.0}], readings=[{"running": 3}])
    kept = host.state_file("evidence", OP)
    assert mode(kept) == 0o700
    (answer,) = [json.loads(line) for line in (kept / "answers-first").read_text().splitlines()]
    (reading,) = [json.loads(line) for line in (kept / "readings-first").read_text().splitlines()]
    assert 9.9 < reading["at"] - answer["at"] < 10.1
    assert set(answer) == {"at", "text"}
    assert mode(kept / "answers-first") == 0o600
    assert "knows no field" in host.refused("keep", op=OP, more=1)[1]
    assert "field 'answers'" in host.refused("keep", op=OP, answers=[{"text": "x" * 9000}])[1]
    assert "field 'op'" in host.refused("keep", op="../x")[1]
