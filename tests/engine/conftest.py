"""One service for the whole run, and the table of its seconds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.engine.service import Service, served
from tests.engine.steps import Steps
from tests.engine.unit import CHECKOUT, ENGINE

HERE = Path(__file__).parent
INSTALL = bool(os.environ.get("DDTUNE_TEST_ENGINE"))
STEPS = pytest.StashKey[Steps]()
ABOUT = """# A run against a real SGLang

Written by `make test-engine`: SGLang 0.5.23 on a CPU with SmolLM2-135M, as a unit under a real systemd with
`User=sglang`, reached over a real sshd; the console script does everything. Seconds on {cores} cores at a load of
{load:.0f}, {date}.

"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--engine-table", default="build/engine-run.md", help="where a good run writes its seconds")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STEPS] = Steps()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not INSTALL and not (ENGINE / "stamp").exists():
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip("the engine is not installed: make test-engine"))


@pytest.fixture(scope="session")
def steps(pytestconfig: pytest.Config) -> Steps:
    """Seconds by step; printed at the end and, after a good run, written to a file."""
    return pytestconfig.stash[STEPS]


@pytest.fixture(scope="session")
def engine(steps: Steps) -> None:
    """The engine is installed."""
    if not INSTALL:
        return
    began = time.monotonic()
    argv = [str(HERE / "setup/install"), os.environ.get("PYTHON", sys.executable), str(ENGINE)]
    done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        pytest.fail(f"the engine cannot be installed here: {last[:200]}")
    if done.stdout:
        steps.rows.append(("install the engine and make the model", time.monotonic() - began, ""))


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, engine: None, steps: Steps) -> Iterator[Service]:
    """The service, serving and not yet adopted."""
    began = time.monotonic()
    with served(tmp_path_factory.mktemp("engine")) as service:
        steps.rows.append(("boot the guest, first start of the engine", time.monotonic() - began, ""))
        yield service


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config, steps = session.config, session.config.stash[STEPS]
    if not steps.rows:
        return
    if exitstatus == 0 and not config.option.keyword:
        text = ABOUT.format(date=datetime.now(UTC).date(), cores=os.cpu_count(), load=os.getloadavg()[2])
        path = config.rootpath / config.getoption("--engine-table")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + steps.table() + "\n")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    steps = config.stash[STEPS]
    if steps.rows:
        terminalreporter.section("seconds of each step with a real engine")
        terminalreporter.write_line(steps.table())
