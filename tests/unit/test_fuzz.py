"""The fuzz targets for a moment each."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.fuzz_targets import TARGETS

EXAMPLES = 60


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_any_input_is_read(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        target.check(data.draw(target.inputs))

    run()
