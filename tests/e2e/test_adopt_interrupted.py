"""adopt and unadopt ended by kill -9 behind each change that they make to the host: asked again, they complete.

The helper runs as it does for an operator, but for a hand on its system calls: it kills itself behind the Nth one that
changes something.
"""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddtune.host import bundle
from tests.e2e.guest import Guest, booted
from tests.e2e.host_files import Entry, changes, snapshot
from tests.e2e.kinds import direct
from tests.e2e.login import Site
from tests.e2e.unit import UNIT

PYTHON = "/usr/bin/python3"
STRIDE = 1 if os.environ.get("DDTUNE_MATRIX") else 8
pytestmark = pytest.mark.timeout(600 if STRIDE > 1 else 3600)
KILLER = """\
import os, signal, subprocess, sys
left = [int(sys.argv.pop(1))]
def watched(act):
    def done(*args, **options):
        result = act(*args, **options)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return done
for name in ("rename", "unlink", "mkdir", "rmdir", "symlink", "chmod", "fchmod"):
    setattr(os, name, watched(getattr(os, name)))
run = subprocess.run
reload = watched(run)
subprocess.run = lambda argv, *more, **options: (reload if "daemon-reload" in argv else run)(argv, *more, **options)
sys.path.insert(0, "PYZ")
sys.argv[0] = "-c"
from ddtune.onhost.main import main
status = main(sys.argv[1:])
sys.stderr.write("steps left: %d" % left[0])
sys.exit(status)
"""
PYZ = "/root/ddtune-under-test.pyz"
CONSTANTS = {
    "proto": 1,
    "root": "",
    "python": PYTHON,
    "systemctl": "/usr/bin/systemctl",
    "systemd_run": "/usr/bin/systemd-run",
    "journalctl": "/usr/bin/journalctl",
}


class Victim:
    """One service, and programs that can be made to die."""

    def __init__(self, guest: Guest, folder: Path) -> None:
        self.guest = guest
        self.site = Site(guest, folder / "operator", direct(guest), "root")
        guest.console(["sh", "-c", f"cat >{PYZ}"], bundle.pyz())

    def ask(self, program: str, request: dict[str, Any], die_at: int = 1 << 30) -> dict[str, Any] | None:
        """The answer of ``program``; None when it died behind its change ``die_at``."""
        argv = [PYTHON, "-I", "-c", KILLER.replace("PYZ", PYZ), str(die_at), program]
        done = self.guest.console(argv, json.dumps({"proto": 1, **request}).encode(), check=False)
        if not done.stdout:
            assert done.returncode == -signal.SIGKILL, done
            return None
        answer = dict(json.loads(done.stdout))
        assert answer["ok"], answer
        return answer

    def install(self, die_at: int = 1 << 30) -> dict[str, Any] | None:
        return self.ask("install", {"pyz_b64": base64.b64encode(bundle.pyz()).decode(), "install": CONSTANTS}, die_at)

    def adopt(self, die_at: int = 1 << 30) -> dict[str, Any] | None:
        return self.ask("helper", {"verb": "adopt", "unit": UNIT, "install": CONSTANTS}, die_at)

    def unadopt(self, die_at: int = 1 << 30) -> dict[str, Any] | None:
        request = {"verb": "unadopt", "unit": UNIT, "programs": True, "install": CONSTANTS}
        return self.ask("helper", request, die_at)

    def files(self) -> dict[str, Entry]:
        """What is there, without what differs from one adoption to the next."""
        return {path: entry for path, entry in snapshot(self.guest).items() if not path.startswith("/run/ddtune/")}

    def clean(self) -> None:
        assert self.site.left() == []
        assert self.site.untouched()


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    folder = tmp_path_factory.mktemp("interrupted")
    with booted(folder) as guest:
        yield Victim(guest, folder)


def names(files: dict[str, Entry]) -> dict[str, tuple[object, ...]]:
    """Kind, mode and owner of each path: the times in site and history differ from one adoption to the next."""
    return {path: entry[:4] for path, entry in files.items()}


@pytest.mark.parametrize("program", ["install", "adopt"])
def test_an_adoption_ended_anywhere_is_made_good(victim: Victim, program: str) -> None:
    victim.install()
    victim.adopt()
    whole = names(victim.files())
    victim.unadopt()
    victim.clean()
    died = 0
    for step in range(1, 200, STRIDE):
        if program == "adopt":
            victim.install()
        ended = (victim.install if program == "install" else victim.adopt)(step) is None
        died += ended
        assert victim.site.untouched(), f"step {step}"
        victim.install()
        victim.adopt()
        assert names(victim.files()) == whole, f"step {step}"
        assert victim.guest.show("DropInPaths").endswith("zz-ddtune.conf")
        victim.unadopt()
        assert victim.site.left() == [], f"step {step}"
        if not ended:
            break
    print(f"{program} was ended at {died} points")
    assert died >= 20 // STRIDE, "too few steps were cut"
    victim.clean()


def test_an_unadoption_ended_anywhere_is_made_good(victim: Victim) -> None:
    died = 0
    for step in range(1, 200, STRIDE):
        victim.install()
        victim.adopt()
        ended = victim.unadopt(step) is None
        died += ended
        assert victim.site.untouched(), f"step {step}"
        victim.unadopt()
        assert changes(victim.site.before, snapshot(victim.guest)) == [], f"step {step}"
        if not ended:
            break
    print(f"unadopt was ended at {died} points")
    assert died >= 20 // STRIDE, "too few steps were cut"
    victim.clean()


def test_the_service_starts_as_ever_wherever_an_adoption_was_cut(victim: Victim) -> None:
    """Restarted behind a cut, it runs its own command line, through the launcher or not."""
    for step in (12, 24) if STRIDE > 1 else (1, 12, 20, 24, 27, 30):
        victim.install()
        victim.adopt(step)
        victim.guest.console(["systemctl", "restart", UNIT])
        assert victim.guest.main_argv() == victim.site.argv, f"step {step}"
        victim.adopt()
        victim.unadopt()
        victim.site.pid = victim.guest.show("MainPID")
    assert victim.site.left() == []
