"""The dashboard on a real terminal: one that nobody reads, and one that is given back."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

import pytest

from ddtune.config.model import HostConfig
from ddtune.profiles.store import load_profiles
from tests.tui.embedded import ROOT
from tests.tui.test_embedded import quick_gates

pytestmark = pytest.mark.timeout(240)
__all__ = ["quick_gates"]

LIMIT_S = 150.0


class Terminal:
    """A pty with the dashboard behind it."""

    def __init__(self, *command: str) -> None:
        self._ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.seen = b""
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )

    def press(self, *keys: str) -> None:
        """Send keys, each by itself."""
        for key in keys:
            os.write(self._ours, key.encode())
            self.read(0.3)

    def read(self, seconds: float) -> None:
        """Take what is shown."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._ours], [], [], left)[0]:
                self.seen += os.read(self._ours, 65536)

    def until(self, text: str, *, keep: bool = False) -> None:
        """Read until a text was shown since the last call; ``keep`` what was read."""
        deadline = time.monotonic() + LIMIT_S
        while text.encode() not in self.seen:
            assert time.monotonic() < deadline, self.seen[-3000:]
            self.read(0.2)
        self.seen = self.seen if keep else b""

    def unread(self) -> int:
        """Bytes that wait to be read."""
        return int(struct.unpack("i", ioctl(self._ours, termios.FIONREAD, b"\0" * 4))[0])

    def end(self) -> int:
        """Read until the process ends; its exit code."""
        deadline = time.monotonic() + LIMIT_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            self.read(0.2)
        self.read(0.2)
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)
        os.close(self.theirs)


@contextmanager
def terminal(host: HostConfig, *options: str) -> Iterator[Terminal]:
    made = Terminal("-m", "ddtune.cli.main", "connect", host.name, "--write", *options)
    try:
        made.until("SERVING")
        yield made
    finally:
        made.close()


def wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def status(host: HostConfig) -> dict[str, object]:
    command = [sys.executable, "-m", "ddtune.cli.main", "status", host.name, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return json.loads(done.stdout)


def state(host: HostConfig) -> str | None:
    """Of the transaction as it lies on the host; None when there was none."""
    found = Path(host.root) / "run/ddtune" / str(host.unit) / "txn.json"
    return str(json.loads(found.read_text())["state"]) if found.exists() else None


def test_a_terminal_that_nobody_reads_costs_no_lease(host: HostConfig) -> None:
    before = status(host)["service"]["profile"]
    wanted = "b16-eager" if before == "b8-nvls" else "b8-nvls"
    with terminal(host) as screen:
        screen.press("P")
        screen.until("read at")
        screen.press(*["j"] * list(load_profiles()).index(wanted), "\r")
        screen.until("goes back")
        screen.press("\r")
        screen.until("Cancel")
        os.write(screen._ours, b"y")
        # From here on nothing is read.
        wait(lambda: state(host) == "COMMITTED")
        assert screen.process.poll() is None
        full = screen.unread()
        time.sleep(2.5)
        assert screen.unread() == full > 1000, "the screen was drawn on: the pty was not full"
        screen.until("COMMITTED")
        screen.press("q")
        screen.press("q")
        assert screen.end() == 0
    assert status(host)["service"]["profile"] == wanted


@pytest.mark.parametrize("way_out", ["q", "ctrl+c", "SIGTERM", "SIGHUP"])
def test_the_terminal_is_given_back(host: HostConfig, way_out: str) -> None:
    with terminal(host) as screen:
        if way_out.startswith("SIG"):
            screen.process.send_signal(getattr(signal, way_out))
        else:
            screen.press("q" if way_out == "q" else "\x03")
        assert screen.end() == 0
        assert termios.tcgetattr(screen.theirs) == screen.before
        assert b"\x1b[?1049l" in screen.seen
        assert b"\x1b[?25h" in screen.seen
        assert b"Traceback" not in screen.seen


def test_k7_01_mouse_reports_of_the_old_kind_are_survived(host: HostConfig) -> None:
    with terminal(host) as screen:
        # The last one is a click at a place that is spelled as the key that leaves.
        for report in (b"\x1b[M\x20\x82\x21", b"\x1b[M#\xff\xff", b"\x1b[M qq"):
            os.write(screen._ours, report)
            # Each is read by itself, as keys are.
            screen.read(0.3)
        os.write(screen._ours, b"\xff\xfe?")
        screen.until("Roll back: b, then y")
        assert screen.process.poll() is None
        screen.press("q", "q")
        assert screen.end() == 0


def test_without_a_mouse_none_is_asked_for(host: HostConfig) -> None:
    for options, asked in (((), True), (("--no-mouse",), False)):
        made = Terminal("-m", "ddtune.cli.main", "connect", host.name, *options)
        try:
            made.until("SERVING", keep=True)
            assert (b"\x1b[?1000h" in made.seen) is asked
            made.press("q")
            assert made.end() == 0
        finally:
            made.close()


CRASH = """
from ddtune.tui.screens.log import LogScreen
def broken(self, view): raise ZeroDivisionError("in the test")
LogScreen.show = broken
import sys
sys.argv = ["ddtune", "connect", sys.argv[1]]
from ddtune.cli.main import main
main()
"""


def test_k7_03_a_bug_ends_in_one_sentence_and_gives_the_terminal_back(
    host: HostConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    made = Terminal("-c", CRASH, host.name)
    try:
        made.until("SERVING")
        made.press("l")
        assert made.end() == 1
        assert termios.tcgetattr(made.theirs) == made.before
        assert b"\x1b[?1049l" in made.seen
        left = made.seen.rpartition(b"\x1b[?1049l")[2].decode()
        assert "a bug of ddtune's: ZeroDivisionError" in left
        assert "Traceback" not in left
        log = next(tmp_path.rglob("crash.log"))
        assert str(log) in "".join(left.split())
        assert "in the test" in log.read_text()
    finally:
        made.close()
