"""Guests for the end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.guest import Guest, booted


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def shared_guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """One guest for all tests that leave it as they found it."""
    with booted(tmp_path_factory.mktemp("guest")) as guest:
        yield guest


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    """A guest of this test's own: to reboot, to break."""
    with booted(tmp_path) as guest:
        yield guest
