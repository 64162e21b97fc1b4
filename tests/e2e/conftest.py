"""Guests for the end-to-end tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.guest import Guest, booted
from tests.e2e.service import Service, adopted

NUMBERS = pytest.StashKey[dict[str, float]]()


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


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One adopted service for a module's tests, which leave b8-nvls running."""
    with adopted(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture(scope="session")
def numbers(pytestconfig: pytest.Config) -> dict[str, float]:
    """Measured seconds by name; printed at the end and written to build/e2e-numbers.json."""
    return pytestconfig.stash[NUMBERS]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[NUMBERS] = {}


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["numbers"] = session.config.stash[NUMBERS]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes over what a worker measured; one that died has left nothing."""
    node.config.stash[NUMBERS].update(getattr(node, "workeroutput", {}).get("numbers", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    measured = config.stash[NUMBERS]
    if not measured or hasattr(config, "workeroutput"):
        return
    terminalreporter.section("measured in the end-to-end run")
    for name, seconds in measured.items():
        terminalreporter.write_line(f"{name}: {seconds:.2f} s")
    path = config.rootpath / "build/e2e-numbers.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(measured, indent=1) + "\n")
