"""Each case runs twice: as it was reported, and with an input of its own."""

from __future__ import annotations

import random

import pytest

from tests.unit.cases.given import Given


@pytest.fixture(params=["reported", "sibling"])
def given(request: pytest.FixtureRequest) -> Given:
    return Given(request.param == "sibling", random.Random(request.node.nodeid))
