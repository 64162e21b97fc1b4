"""One runner for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.onhost_crash.box import Runner


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    made = Runner(tmp_path_factory.mktemp("runner"))
    yield made
    made.close()
