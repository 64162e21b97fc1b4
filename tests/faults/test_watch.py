"""A headless watch on a real systemd: late hang and late garbage are found, gone back from, and told once."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.onhost import STATE
from tests.e2e.operator import HOST
from tests.faults.site import STABLE, UNIT, Site, adopted

pytestmark = [pytest.mark.timeout(400), pytest.mark.slow]


class Watch:
    """A running ``ddtune watch`` and what it has said so far."""

    def __init__(self, site: Site, *options: str) -> None:
        self._out = (site.operator.folder / "watch.log").open("w+")
        self.process = subprocess.Popen(
            site.operator.argv("watch", HOST, "--every", "2", *options),
            env=site.operator.env,
            cwd=site.operator.folder,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
        )

    @property
    def said(self) -> str:
        return Path(self._out.name).read_text()

    def until(self, text: str, limit_s: float = 120) -> None:
        wait_until(text, lambda: text in self.said or self.process.poll() is not None, limit_s)
        assert text in self.said, self.said

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self._out.close()


@contextlib.contextmanager
def _watching(site: Site, *options: str) -> Iterator[Watch]:
    watch = Watch(site, *options)
    try:
        watch.until("watching")
        wait_until("it is seen on the host", lambda: site.guest.file(f"{STATE}/watch.json").exists(), 30)
        yield watch
    finally:
        watch.close()


@pytest.fixture
def committed(tmp_path: Path) -> Iterator[Site]:
    """A site whose trial has passed its gate and is in its probation."""
    with adopted(tmp_path) as site:
        code, answer = site.switch("t7", "--force")
        assert code == 0, answer
        yield site


def test_a_late_hang_goes_back_and_is_told_once(committed: Site) -> None:
    site = committed
    with _watching(site) as watch:
        # The engine takes connections and answers nobody, as one whose scheduler is stuck.
        site.guest.ssh(["systemctl", "kill", "-s", "STOP", UNIT])
        watch.until("ddtune goes back to the release before it", 300)
        watch.until("rollback ended committed", 200)
        assert site.budget() == STABLE
        assert watch.said.count("ddtune goes back to the release before it") == 1
        wait_until("the end is told", lambda: "committed" in watch.said, 30)
        assert site.status()["watch"]["alive"]
    assert not site.guest.file(f"{STATE}/watch.json").exists(), "one that was ended on purpose is not missed"


def test_only_tell_changes_nothing(committed: Site) -> None:
    site = committed
    before = site.invocation()
    with _watching(site, "--dry-run") as watch:
        site.guest.ssh(["systemctl", "kill", "-s", "STOP", UNIT])
        watch.until("a person must look", 300)
        watch.until("dry run: would tell nobody")
        assert site.invocation() == before
        site.guest.ssh(["systemctl", "kill", "-s", "CONT", UNIT])


def test_a_dead_watch_is_a_note_of_the_next_status(committed: Site) -> None:
    site = committed
    with _watching(site) as watch:
        watch.process.kill()
        watch.process.wait()
        left = json.loads(site.guest.file(f"{STATE}/watch.json").read_text())
        # As it will lie there some minutes later.
        site.guest.put(f"{STATE}/watch.json", json.dumps({**left, "at": left["at"] - 600}))
        status = site.status()
        assert status["watch"]["alive"] is False
        assert any("ddtune watch b300" in note for note in status["notes"])
