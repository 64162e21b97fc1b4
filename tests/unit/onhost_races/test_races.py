"""A commit and a rollback never happen both, nor half of each."""

from __future__ import annotations

import pytest

from tests.unit.onhost_races.races import run

# Scenario 41 of the faults is of 10,000.
RACES = 400


def test_confirm_against_expiry(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(RACES)
    with capsys.disabled():
        print(f"\n{RACES} races: {dict(found)}")
    assert found["split"] == 0
    assert found["committed"] + found["rolled_back"] == RACES
    assert min(found["committed"], found["rolled_back"]) > RACES / 20, (
        f"both must happen for it to be a race: {dict(found)}"
    )
