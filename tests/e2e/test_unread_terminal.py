"""A terminal that nobody reads costs no lease: the switch commits."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.operator import HOST
from tests.e2e.service import adopted

UNREAD_S = 40


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_switch_commits_behind_a_full_pty(tmp_path: Path) -> None:
    """Three leases long: the soak alone makes it so."""
    with adopted(tmp_path, {"soak_s": UNREAD_S}) as service:
        ours, theirs = pty.openpty()
        _fill(theirs)
        process = subprocess.Popen(
            service.operator.argv("switch", HOST, "b16-eager", "--yes"),
            env=service.operator.env | {"TERM": "xterm-256color"},
            cwd=service.operator.folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        began = time.monotonic()
        try:
            wait_until("the switch commits", lambda: service.txn().get("state") == "COMMITTED", UNREAD_S + 120, every=1)
            assert time.monotonic() - began > UNREAD_S
            assert service.runs("16")
            assert process.poll() is None, "it ended without having been read: the pty was not full"
            with contextlib.suppress(OSError):  # the far end is closed
                while os.read(ours, 65536):
                    pass
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()
            os.close(ours)


def _fill(descriptor: int) -> None:
    """Writes until a further byte would block."""
    os.set_blocking(descriptor, False)
    try:
        while os.write(descriptor, b"." * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(descriptor, True)
