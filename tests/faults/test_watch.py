"""A headless watch on a real systemd: late hang and late garbage are found, gone back from, and told once."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.onhost import STATE
from tests.faults.site import STABLE, UNIT, Site, adopted
from tests.faults.watching import watching

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


@pytest.fixture
def committed(tmp_path: Path) -> Iterator[Site]:
    """A site whose trial has passed its gate and is in its probation."""
    with adopted(tmp_path) as site:
        code, answer = site.switch("t7", "--force")
        assert code == 0, answer
        yield site


def test_a_late_hang_goes_back_and_is_told_once(committed: Site) -> None:
    site = committed
    with watching(site) as watch:
        # The engine takes connections and answers nobody, as one whose scheduler is stuck.
        site.guest.console(["systemctl", "kill", "-s", "STOP", UNIT])
        watch.until("ddtune goes back to the release before it", 300)
        watch.until("rollback ended committed", 200)
        assert site.budget() == STABLE
        assert watch.said.count("ddtune goes back to the release before it") == 1
        wait_until("the end is told", lambda: "committed" in watch.said, 30)
        assert site.status()["watch"]["alive"]
    assert not site.guest.file(f"{STATE}/watch.json").exists(), "one that was ended on purpose is not missed"


HOGS, ENDS = 4, 5


@contextlib.contextmanager
def _hogs(count: int) -> Iterator[None]:
    """Processes that leave nobody else a whole core."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def _asks(site: Site) -> bool:
    return any(words[:1] == ["helper"] for words in site.programs().values())


def test_an_asked_end_is_heard_of_however_busy_the_machine_is(site: Site) -> None:
    """Asked at any moment: between two signs of life, in one, and in a canary."""
    with _hogs(HOGS):
        for turn in range(ENDS):
            with watching(site) as watch:
                if turn % 2:
                    wait_until("a helper of its runs", lambda: _asks(site), 60, 0.01)
            assert watch.process.returncode == 0, watch.said
            assert not site.guest.file(f"{STATE}/watch.json").exists(), (turn, watch.said)
        assert site.status()["watch"] is None


def test_only_tell_changes_nothing(committed: Site) -> None:
    site = committed
    before = site.invocation()
    with watching(site, "--dry-run") as watch:
        site.guest.console(["systemctl", "kill", "-s", "STOP", UNIT])
        watch.until("a person must look", 300)
        watch.until("dry run: would tell nobody")
        assert site.invocation() == before
        site.guest.console(["systemctl", "kill", "-s", "CONT", UNIT])


def test_a_dead_watch_is_a_note_of_the_next_status(committed: Site) -> None:
    site = committed
    with watching(site) as watch:
        watch.process.kill()
        watch.process.wait()
        left = json.loads(site.guest.file(f"{STATE}/watch.json").read_text())
        # As it will lie there some minutes later.
        site.guest.put(f"{STATE}/watch.json", json.dumps({**left, "at": left["at"] - 600}))
        status = site.status()
        assert status["watch"]["alive"] is False
        assert any("ddtune watch b300" in note for note in status["notes"])
