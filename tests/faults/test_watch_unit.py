"""The unit that ``ddtune watch --print-unit`` prints, on a machine of its own, started and ended by its systemd."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.guest import booted, wait_until
from tests.e2e.onhost import STATE
from tests.e2e.operator import HOST
from tests.faults.machine import Machine
from tests.faults.site import ENGINE, LIMITS, STABLE, UNIT, Site, adopted
from tests.faults.users import ask
from tests.unit.receivers import Webhook, listening

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
LATE_AFTER = 600
BACK = "ddtune goes back to the release before it"


@dataclass
class Watching:
    """A site in its probation on budget 7, and the machine whose systemd runs the watch of it."""

    site: Site
    machine: Machine
    unit: str
    webhook: Webhook

    def systemctl(self, *words: str) -> None:
        self.machine.guest.console(["systemctl", *words, self.unit], timeout=200)

    def show(self, prop: str) -> str:
        return self.machine.guest.show(prop, self.unit)

    def said(self) -> str:
        return self.machine.guest.out(["journalctl", "--no-pager", "-o", "cat", "-u", self.unit])

    def heard_of(self) -> bool:
        return self.site.guest.file(f"{STATE}/watch.json").exists()

    def start(self) -> None:
        self.systemctl("start")
        wait_until(f"it is heard of: {self.said()}", self.heard_of, 90)

    def notices(self, text: str) -> list[str]:
        return [one["title"] for one in self.webhook.got if text in one["title"] + one["message"]]


@contextlib.contextmanager
def _installed(folder: Path, scenario: str) -> Iterator[Watching]:
    webhook = Webhook()
    with (
        adopted(folder / "site", DDTUNE_SIM_SCENARIO=scenario) as site,
        booted(folder / "machine") as guest,
        listening(webhook),
    ):
        code, answer = site.switch("t7", "--force")
        assert code == 0, answer
        machine = Machine(guest, "eve", site.guest, LIMITS)
        machine.put(f"{machine.config}/notify", f"# the pager\n{webhook.address}\n")
        text = machine.run("watch", HOST, "--every", "2", "--print-unit").out
        # As its first line says.
        path = shlex.split(text.splitlines()[0].removeprefix("# Save as ").partition(", then:")[0])[0]
        guest.put(path, text)
        guest.console(["systemctl", "daemon-reload"])
        yield Watching(site, machine, Path(path).name, webhook)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    (tmp_path / "machine").mkdir()
    return tmp_path


def test_a_late_hang_then_an_asked_end_then_kills(folder: Path) -> None:
    with _installed(folder, ENGINE["DDTUNE_SIM_SCENARIO"]) as watching:
        site = watching.site
        watching.systemctl("enable")
        watching.start()
        assert (watching.show("ActiveState"), watching.show("Type")) == ("active", "notify")
        known = site.status()["watch"]
        assert known["alive"]
        assert known["who"] == f"eve on {watching.machine.guest.name}"

        site.guest.console(["systemctl", "kill", "-s", "STOP", UNIT])
        wait_until("the hang is told", lambda: watching.notices(BACK), 300)
        wait_until("the end is told", lambda: watching.notices("committed"), 200)
        assert site.runs(STABLE)
        assert len(watching.notices(BACK)) == len(watching.notices("committed")) == 1, watching.webhook.titles()

        watching.systemctl("stop")
        assert (watching.show("ActiveState"), watching.show("Result")) == ("inactive", "success"), watching.said()
        assert not watching.heard_of(), "one that was ended on purpose is not missed"
        status = site.status()
        assert status["watch"] is None
        assert not [note for note in status["notes"] if "watch" in note]

        watching.start()
        first = watching.show("MainPID")
        watching.machine.guest.console(["kill", "-9", first])
        wait_until("systemd starts it again", lambda: watching.show("MainPID") not in ("0", first), 60)
        heard = f'"pid":{watching.show("MainPID")}'
        wait_until("it is heard of", lambda: heard in _text(watching).replace(" ", ""), 90)
        assert len(watching.notices(BACK)) == 1, "what was told is not told by the next one"

        watching.machine.guest.power_cut()
        left = json.loads(_text(watching))
        # As it will lie there some minutes later.
        site.guest.put(f"{STATE}/watch.json", json.dumps({**left, "at": left["at"] - 600}))
        status = site.status()
        assert status["watch"]["alive"] is False
        assert any(f"eve on {watching.machine.guest.name}" in note for note in status["notes"]), status["notes"]


def test_late_garbage_goes_back(folder: Path) -> None:
    with _installed(folder, f"@budget==7:garbage:{LATE_AFTER}") as watching:
        site = watching.site
        watching.start()
        wait_until("its canaries are answered rightly", lambda: watching.show("ActiveState") == "active", 30)
        for _ in range(LATE_AFTER):
            ask(site.guest.api_port, 4)
        wait_until("the garbage is told", lambda: watching.notices(BACK), 300)
        assert watching.notices("garbage_output") or watching.notices("wrong_output"), watching.webhook.titles()
        wait_until("the end is told", lambda: watching.notices("committed"), 200)
        assert site.runs(STABLE)
        watching.systemctl("stop")
        assert not watching.heard_of()


def _text(watching: Watching) -> str:
    return watching.site.guest.file(f"{STATE}/watch.json").read_text()
