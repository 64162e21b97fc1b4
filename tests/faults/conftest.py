"""Runs the fast scenarios, or all with ``--faults`` or by name, and writes the table of a whole run.

With pytest-xdist each worker hands its rows over when it ends, and the controller writes the table.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.faults import broken, rows
from tests.faults.gold import GOLD
from tests.faults.rows import Row
from tests.faults.site import Site, adopted

PARTS = pytest.StashKey[dict[int, int]]()
BEGAN = pytest.StashKey[float]()
ROWS = pytest.StashKey[dict[int, Row]]()
KINDS = ("real", "injected", "sim")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--faults", action="store_true", help="all fault scenarios, and write docs/faults.md")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "injected: the fault stands in for one that cannot be made here")
    config.addinivalue_line("markers", "sim: the simulated engine itself misbehaves")
    config.stash[BEGAN] = time.monotonic()
    config.stash[ROWS] = {}
    config.stash[PARTS] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for number in filter(None, map(_number, items)):
        config.stash[PARTS][number] = config.stash[PARTS].get(number, 0) + 1
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)


def _number(item: pytest.Item) -> int | None:
    found = re.match(r"test_(\d\d)_", item.name)
    return int(found[1]) if found else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    row = item.config.stash[ROWS].get(_number(item) or 0)
    if row is not None and Path(__file__).parent in item.path.parents:
        if report.failed:
            row.ok = False
        elif report.when == "call" and row.ok is None:
            row.ok = report.passed
        row.parts += report.when == "call"
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker's part of the table; one that was lost leaves its scenarios without a row."""
    said = getattr(node, "workeroutput", {}).get("faults")
    if said is None:
        return
    stash = node.config.stash
    stash[PARTS].update((int(number), parts) for number, parts in said["parts"].items())
    for text in said["rows"]:
        row = Row(**text)
        if (known := stash[ROWS].setdefault(row.number, row)) is not row:
            known.join(row)


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    found = config.stash[ROWS]
    if hasattr(config, "workeroutput"):
        config.workeroutput["faults"] = {
            "rows": [asdict(row) for row in found.values()],
            "parts": {str(number): parts for number, parts in config.stash[PARTS].items()},
        }
        return
    if not found or not config.getoption("--faults", False):
        return
    build = config.rootpath / "build"
    broke = ",".join(broken.asked())
    if broke:
        rows.write(found, build / f"faults-{broke}.md")
        return
    if all(number in found and found[number].parts == config.stash[PARTS].get(number) for number in GOLD):
        minutes = (time.monotonic() - config.stash[BEGAN]) / 60
        rows.write(found, config.rootpath / "docs/faults.md", f"in one run of {minutes:.0f} minutes")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    found = config.stash[ROWS]
    if found:
        terminalreporter.section("faults")
        for number in sorted(found):
            terminalreporter.write_line(found[number].line())


class Sites:
    """The session's site, made anew when a test has left it unsound."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._stack = contextlib.ExitStack()
        self._site: Site | None = None

    def get(self) -> Site:
        if self._site is not None and not self._site.sound():
            self.close()
        if self._site is None:
            self._site = self._stack.enter_context(adopted(self._factory.mktemp("site")))
        return self._site

    def close(self) -> None:
        self._site = None
        self._stack.close()


@pytest.fixture(scope="session")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    sites = Sites(tmp_path_factory)
    yield sites
    sites.close()


def _row(node: pytest.Item) -> Row | None:
    number = _number(node)
    kind = next((kind for kind in KINDS if node.get_closest_marker(kind)), "real")
    return None if number is None else node.config.stash[ROWS].setdefault(number, Row(number, kind))


@pytest.fixture
def row(request: pytest.FixtureRequest) -> Row:
    """The scenario's line of the table."""
    row = _row(request.node)
    assert row is not None, "the test has no number"
    return row


@pytest.fixture
def site(sites: Sites, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A sound site; what it shows at the end goes into the row, if the test has one."""
    with watched(sites.get(), request.node) as site:
        yield site


@pytest.fixture
def own_site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A site for one test alone, to be rebooted or ruined."""
    with adopted(tmp_path) as site, watched(site, request.node):
        yield site


@contextlib.contextmanager
def watched(site: Site, node: pytest.Item) -> Iterator[Site]:
    """``site`` while the test of ``node`` uses it; what it shows at the end goes into the test's row."""
    site.begin()
    yield site
    if row := _row(node):
        for text in _looked(site):
            row.note(text)


def _looked(site: Site) -> list[str]:
    try:
        return site.look()
    except Exception as error:  # noqa: BLE001 (a broken site must still get its row)
        return [f"cannot be read: {error}"[:120]]
