"""How a service ended on a real systemd, and what follows in a probation. There is no engine, so each case is quick."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ddtune.host import bundle
from ddtune.onhost import drop_in
from ddtune.onhost.paths import Install
from tests.e2e.guest import Guest, booted, wait_until

PYZ = Install().pyz
_serial = itertools.count(1)
SLEEP = "ExecStart=/bin/sleep infinity"
SLOW_END = "ExecStart=/bin/sh -c 'trap \"sleep 0.5; exit 9\" TERM; while :; do sleep 0.1; done'"
PREPARE = """
import sys
sys.path.insert(0, sys.argv[1])
from ddtune.onhost import clock, releases, store
from ddtune.onhost.paths import Paths
import os
paths = Paths("").unit(sys.argv[2])
os.makedirs(paths.releases)
def put(seconds):
    release = {"argv": ["/bin/sleep", seconds], "cwd": "/", "env_set": {}, "env_unset": [], "schema": 1}
    return releases.put(paths, release, {"profile": seconds})
old, new = put("1000001"), put("1000002")
releases.set_previous(paths, old)
releases.set_stable(paths, new)
record = {"release": new, "previous": old, "op": "op", "at": clock.wall(), "until": clock.wall() + 600, "ended": None}
store.write_json(paths.probation, record)
"""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    with booted(tmp_path_factory.mktemp("ended")) as guest:
        guest.console(["sh", "-c", 'mkdir -p "$(dirname "$0")" && cat >"$0"', PYZ], bundle.pyz())
        guest.put("/etc/systemd/system/ddtune-ended@.service", drop_in.render_ended(Install()))
        yield guest


@dataclass
class Unit:
    """A service of its own name in the guest."""

    guest: Guest
    name: str

    def do(self, *arguments: str, check: bool = True) -> None:
        self.guest.console(["systemctl", *arguments, self.name], check=check)

    def wait_runs(self, *, after: str = "") -> str:
        """The main process's pid once one runs that is not ``after``."""
        return wait_until("it runs", lambda: (pid := self.guest.show("MainPID", self.name)) not in ("0", after) and pid)

    def ends(self) -> list[dict[str, Any]]:
        """The records of ``ended``, oldest first."""
        path = self.guest.file(f"/run/ddtune/{self.name}/ended.json")
        records = json.loads(path.read_bytes()).values() if path.exists() else []
        return sorted(records, key=lambda record: record["boottime"])

    def first_end(self) -> tuple[bool, str]:
        """Whether the first end was asked for, and the job that told."""
        record = wait_until(f"{self.name} has ended", self.ends)[0]
        return record["asked"], record["job"]

    def event_names(self) -> list[str]:
        path = self.guest.file(f"/var/lib/ddtune/{self.name}/history.jsonl")
        return [json.loads(line)["event"] for line in path.read_text().splitlines()] if path.exists() else []

    def budget(self) -> str:
        """The argument of what runs."""
        return (self.guest.main_argv(self.name) or ["", ""])[1]


@pytest.fixture
def made(guest: Guest) -> Iterator[Any]:
    units: list[Unit] = []

    def make(restart: str, *lines: str, kind: str = "simple") -> Unit:
        unit = Unit(guest, f"end\\x2d{next(_serial)}.service")
        units.append(unit)
        after = drop_in.command(Install(), "ended", unit.name)
        body = "\n".join((f"Type={kind}", f"Restart={restart}", "RestartSec=200ms", *lines))
        guest.put(
            f"/etc/systemd/system/{unit.name}",
            f"[Unit]\nStartLimitIntervalSec=0\n[Service]\n{body}\nExecStopPost=-+{after}\n",
        )
        guest.console(["systemctl", "daemon-reload"])
        return unit

    yield make
    for unit in units:
        unit.do("stop", check=False)


class TestJob:
    @pytest.mark.parametrize("restart", ["no", "always"])
    def test_crash(self, made: Any, restart: str) -> None:
        unit = made(restart, SLEEP)
        unit.do("start")
        unit.do("kill", "-s", "KILL")
        assert unit.first_end() == (False, "")

    @pytest.mark.parametrize(
        ("kind", "lines"),
        [
            ("exec", ["ExecStart=/no/such/engine"]),
            ("notify", ["ExecStart=/bin/false"]),
            ("exec", ["ExecStartPre=/bin/false", SLEEP]),
        ],
        ids=["no such program", "dies before it is ready", "failed ExecStartPre"],
    )
    def test_failed_start(self, made: Any, kind: str, lines: list[str]) -> None:
        unit = made("always", *lines, kind=kind)
        unit.do("start", check=False)
        assert unit.first_end() == (False, "start running")
        wait_until("it was started again", lambda: len(unit.ends()) > 2)
        assert not any(record["asked"] for record in unit.ends()), "a restart by systemd is nobody's wish"

    def test_crash_under_a_reload(self, made: Any) -> None:
        unit = made("always", SLEEP, "ExecReload=/bin/sleep 30")
        unit.do("start")
        unit.do("reload", "--no-block")
        unit.do("kill", "-s", "KILL")
        asked, job = unit.first_end()
        assert not asked
        assert job in ("", "reload running")

    def test_stop(self, made: Any) -> None:
        unit = made("always", SLOW_END)
        unit.do("start")
        unit.do("stop")
        assert unit.first_end() == (True, "stop running")
        assert unit.ends()[0]["status"] == "9"

    def test_restart(self, made: Any) -> None:
        unit = made("always", SLEEP)
        unit.do("start")
        unit.do("restart")
        assert unit.first_end() == (True, "restart running")

    def test_stop_that_a_start_took_the_place_of(self, made: Any) -> None:
        # The start must come while it still stops.
        unit = made("always", SLOW_END.replace("sleep 0.5", "sleep 4"))
        unit.do("start")
        pid = unit.wait_runs()
        unit.do("stop", "--no-block")
        unit.do("start")
        unit.wait_runs(after=pid)
        assert unit.first_end() == (True, "start waiting")


@pytest.fixture
def on_probation(guest: Guest, made: Any) -> Any:
    def make(restart: str) -> Unit:
        unit: Unit = made(restart, SLEEP)
        guest.put(f"/etc/systemd/system/{unit.name}", f"[Service]\nRestart={restart}\nRestartSec=200ms\n{SLEEP}\n")
        guest.put(f"/etc/systemd/system/{unit.name}.d/zz-ddtune.conf", drop_in.render(Install(), unit.name, 10))
        guest.console(["systemctl", "daemon-reload"])
        guest.console(["/usr/bin/python3", "-", PYZ, unit.name], PREPARE.encode())
        unit.do("start")
        wait_until("the new release runs", lambda: unit.budget() == "1000002")
        return unit

    return make


@pytest.mark.parametrize("restart", ["no", "always"])
class TestProbation:
    def test_asked_ends_never_count(self, on_probation: Any, restart: str) -> None:
        unit = on_probation(restart)
        pid = unit.wait_runs()
        unit.do("restart")
        pid = unit.wait_runs(after=pid)
        unit.do("stop")
        unit.do("start")
        pid = unit.wait_runs(after=pid)
        unit.do("stop", "--no-block")
        unit.do("kill", "-s", "KILL", check=False)
        unit.do("start")
        unit.wait_runs(after=pid)
        assert unit.budget() == "1000002"
        assert unit.event_names() == []

    def test_a_crash_goes_to_previous_once_and_stable_never_loops(self, on_probation: Any, restart: str) -> None:
        unit = on_probation(restart)
        pid = unit.wait_runs()
        unit.do("kill", "-s", "KILL")
        # With Restart=no it is ddtune-ended@ that starts it.
        unit.wait_runs(after=pid)
        wait_until("previous runs", lambda: unit.budget() == "1000001")
        assert unit.event_names() == ["late_crash"]
        pid = unit.wait_runs()
        unit.do("kill", "-s", "KILL")
        wait_until("its end is written down", lambda: len(unit.ends()) == 2)
        if restart == "no":
            wait_until("it stays down", lambda: unit.guest.show("ActiveState", unit.name) == "failed")
            handler = f"ddtune-ended@{unit.name.replace(chr(92), chr(92) * 2)}"
            wait_until("the handler is through", lambda: unit.guest.show("ActiveState", handler) != "activating")
            assert unit.guest.show("MainPID", unit.name) == "0"
        else:
            unit.wait_runs(after=pid)
            assert unit.budget() == "1000001"
        assert unit.event_names() == ["late_crash"]
