"""The dashboard as an operator has it: tmux, a real ssh login, 256 colours."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ddtune.profiles.store import load_profiles
from tests.e2e.guest import Guest, wait_until
from tests.e2e.tmux import Tmux

ROOT = Path(__file__).parent.parent.parent
DEMO = [sys.executable, "-m", "ddtune.cli.main", "demo"]


@contextmanager
def dashboard(guest: Guest, folder: Path, width: int = 100, height: int = 30) -> Iterator[Tmux]:
    """The dashboard on an embedded host, in a login on the guest."""
    remote = f"cd {ROOT} && DDTUNE_SIM_SPEED=40 exec {shlex.join(DEMO)}"
    options = {"IdentityFile": guest.identity, "UserKnownHostsFile": guest.known_hosts, "LogLevel": "ERROR"}
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    ssh = ["ssh", "-F", "none", "-tt", "-p", str(guest.port), *words, "root@127.0.0.1", remote]
    tmux = Tmux(folder, ssh, width, height)
    try:
        yield tmux
    finally:
        with suppress(subprocess.CalledProcessError):
            tmux("kill-server")


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_the_life_of_an_incident(shared_guest: Guest, tmp_path: Path) -> None:
    with dashboard(shared_guest, tmp_path) as tmux:
        tmux.until("SERVING")
        assert "38;2;" not in tmux.shown("-e"), "colours that this terminal does not have"
        tmux.press("P")
        tmux.until("read at")
        tmux.press(*["j"] * list(load_profiles()).index("b12"), "Enter")
        tmux.until("REFUSED: known bad")
        tmux.press("f")
        tmux.until("FORCED")
        tmux.press("Enter")
        tmux.until("FORCED against")
        tmux.press("y")
        tmux.until("ROLLED BACK")
        tmux.until("because illegal memory access")
        tmux.press("H")
        tmux.until("rolled back from b12 because illegal memory access")
        tmux.press("q", "q")
        tmux.until("SERVING")
        tmux.press("q")
        tmux.until("ended 0")
        assert re.search(r"(?<!-)\bicanon\b.*(?<!-)\becho\b", tmux.shown("-S", "-"), re.DOTALL)


@pytest.mark.timeout(300)
def test_a_killed_login_leaves_no_process(shared_guest: Guest, tmp_path: Path) -> None:
    with dashboard(shared_guest, tmp_path) as tmux:
        tmux.until("SERVING")
        running = ["pgrep", "-f", "^" + " ".join(DEMO) + "$"]
        before = shared_guest.console(running, check=False).stdout.split()
        assert before
        client = int(tmux("display-message", "-p", "#{pane_pid}"))
        ssh = int(subprocess.run(["pgrep", "-P", str(client), "ssh"], capture_output=True, check=True).stdout)
        os.kill(ssh, 9)
        wait_until("the dashboard ends", lambda: not shared_guest.console(running, check=False).stdout.split(), 30)
