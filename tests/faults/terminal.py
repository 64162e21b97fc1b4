"""The dashboard in a terminal of the test's own, byte by byte."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator

from tests.e2e.operator import HOST
from tests.faults.site import Site


class Terminal:
    """A running ``ddtune connect``; ``output`` is every byte that it has written."""

    def __init__(self, site: Site, *options: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 48, 160, 0, 0))
        self.process = subprocess.Popen(
            site.operator.argv("connect", HOST, *options),
            env=site.operator.env | {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
            cwd=site.operator.folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.output = b""

    def press(self, keys: str) -> None:
        """Types ``keys``."""
        os.write(self._ours, keys.encode())

    def read(self, seconds: float) -> bytes:
        """What it writes within ``seconds``."""
        end, began = time.monotonic() + seconds, len(self.output)
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._ours], [], [], left)[0]:
                break
            with contextlib.suppress(OSError):
                self.output += os.read(self._ours, 65536)
                continue
            break
        return self.output[began:]

    def until(self, text: bytes, seconds: float = 30) -> None:
        """Returns once ``text`` has been written."""
        end = time.monotonic() + seconds
        while text not in self.output:
            assert time.monotonic() < end, f"{text!r} was not shown: {self.output[-2000:]!r}"
            assert self.process.poll() is None, self.output[-2000:]
            self.read(0.2)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)


@contextlib.contextmanager
def dashboard(site: Site, *options: str) -> Iterator[Terminal]:
    """``ddtune connect`` of the site's operator; killed at the end."""
    terminal = Terminal(site, *options)
    try:
        yield terminal
    finally:
        terminal.close()
