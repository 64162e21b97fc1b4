"""One service for the whole run, and the table of its seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.engine.service import Service, served
from tests.engine.steps import Steps
from tests.engine.unit import ENGINE

STEPS = pytest.StashKey[Steps]()
ABOUT = """# A run against a real SGLang

Written by `make test-engine`: SGLang 0.5.23 on a CPU with SmolLM2-135M, as a unit under a real systemd with
`User=sglang`, reached over a real sshd; the console script does everything. Seconds on {cores} cores, {date}.

"""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STEPS] = Steps()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not (ENGINE / "stamp").exists():
        for item in items:
            if item.path.parent == ENGINE.parent / "tests/engine":
                item.add_marker(pytest.mark.skip("the engine is not installed: make test-engine"))


@pytest.fixture(scope="session")
def steps(pytestconfig: pytest.Config) -> Steps:
    """Seconds by step; printed at the end and, after a good run, written to docs/engine-run.md."""
    return pytestconfig.stash[STEPS]


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, steps: Steps) -> Iterator[Service]:
    """The service, serving and not yet adopted."""
    began = time.monotonic()
    with served(tmp_path_factory.mktemp("engine")) as service:
        steps.rows.append(("boot the guest, first start of the engine", time.monotonic() - began, ""))
        yield service


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    steps = session.config.stash[STEPS]
    if steps.rows and exitstatus == 0 and not session.config.option.keyword:
        date = datetime.now(UTC).date()
        path = session.config.rootpath / "docs/engine-run.md"
        path.write_text(ABOUT.format(date=date, cores=os.cpu_count()) + steps.table() + "\n")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    steps = config.stash[STEPS]
    if steps.rows:
        terminalreporter.section("seconds of each step")
        terminalreporter.write_line(steps.table())
