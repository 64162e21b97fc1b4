from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.sim_host import served
from tests.unit.sim_host.manager import Manager, start


@pytest.fixture(scope="session")
def manager() -> Iterator[Manager]:
    """A service manager; each test uses units of its own."""
    root = Path(tempfile.mkdtemp(prefix="ddtune-test-", dir="/tmp"))  # a socket's path is short
    manager, process = start(root)
    yield manager
    assert process.stdin is not None
    process.stdin.close()
    process.wait(10)
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[served.Served]:
    """A whole host."""
    running = served.start(tmp_path_factory.mktemp("runtime"))
    yield running
    assert running.process.stdin is not None
    running.process.stdin.close()
    assert running.process.wait(10) == 0
