"""What an operation's checks asked and got: kept small, by this host's clock, and never in anybody's way."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddtune.onhost import kept
from ddtune.onhost.paths import UnitPaths

OP = "0001-b12"


@pytest.fixture
def paths(tmp_path: Path) -> UnitPaths:
    found = UnitPaths(str(tmp_path), "a.service")
    Path(found.state).mkdir(parents=True)
    return found


def numbers(paths: UnitPaths) -> list[int]:
    return [line["n"] for line in kept.read(paths, OP)["answers"]]


def test_the_first_and_the_last_stay_and_the_others_are_counted(paths: UnitPaths) -> None:
    assert kept.read(paths, OP) == {"answers": [], "readings": [], "dropped": {"answers": 0, "readings": 0}}
    for n in range(3):
        kept.add(paths, OP, "answers", [{"n": n}])
    assert numbers(paths) == [0, 1, 2]
    for n in range(3, 600):
        kept.add(paths, OP, "answers", [{"n": n, "text": "x" * 1000}])
    left = numbers(paths)
    assert left[:60] == list(range(60))
    assert left[-40:] == list(range(560, 600))
    assert kept.read(paths, OP)["dropped"]["answers"] == 600 - len(left)
    size = sum(path.stat().st_size for path in Path(paths.evidence).rglob("*"))
    assert size <= kept.FIRST + 2 * kept.LAST + 8192


def test_what_cannot_be_kept_hinders_nobody(paths: UnitPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.add(paths, OP, "answers", [{"n": 1, "text": "\ud800"}])
    assert numbers(paths) == []
    monkeypatch.setattr("ddtune.onhost.room._BYTES", 1 << 62)
    kept.add(paths, OP, "answers", [{"n": 2}])
    assert numbers(paths) == []
    monkeypatch.undo()
    Path(paths.evidence, OP, "answers-first").mkdir()
    kept.add(paths, OP, "answers", [{"n": 3}])


def test_only_the_newest_operations_stay(paths: UnitPaths) -> None:
    for number in range(1, 31):
        kept.add(paths, f"{number:04d}-x", "readings", [{"n": number}])
    assert min(path.name for path in Path(paths.evidence).iterdir()) == "0011-x"
    assert len(list(Path(paths.evidence).iterdir())) == kept.OPERATIONS
