"""The embedded host's outermost process: when its caller or the host ends, in whatever way, nothing is left.

Run by ``bare.command("janitor", ROOT, DESCRIPTOR, "--", PROGRAM…)`` with a pipe on standard input whose other
end the caller holds. PROGRAM gets a pipe of the same kind, so that it notices the end of the janitor in turn.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time

from ddtune.sim import procs

GRACE_S = 5.0


def clean(root: str, descriptor: str) -> None:
    """Removes the host's folder and the file that names it."""
    shutil.rmtree(root, ignore_errors=True)
    if descriptor:
        try:
            os.unlink(descriptor)
        except OSError:
            return


def _start(program: list[str]) -> tuple[int, int]:
    """Starts the host; returns its pid and the pipe that it watches."""
    reading, holding = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(reading, 0)
            os.execv(program[0], program)
        finally:
            os._exit(127)
    os.close(reading)
    # Only the host reports on standard output: were it open here, the caller would never see its end.
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, 1)
    return pid, holding


def main() -> None:
    root, descriptor = sys.argv[1:3]
    procs.become_subreaper()
    if os.getpid() != os.getsid(0):
        os.setsid()
    waking, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    asked: list[int] = []
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, lambda number, _: asked.append(number))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    host, _holding = _start(sys.argv[4:])
    gone = False
    while not gone and not asked:
        ready, _, _ = select.select([0, waking], [], [])
        if 0 in ready and not os.read(0, 4096):
            break
        if waking in ready:
            os.read(waking, 4096)
            gone = any(pid == host for pid, _ in procs.reap())
    if not gone:
        procs.send(host, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while not gone and (left := deadline - time.monotonic()) > 0:
        select.select([waking], [], [], left)
        try:
            os.read(waking, 4096)
        except BlockingIOError:
            break
        gone = any(pid == host for pid, _ in procs.reap())
    procs.purge()
    clean(root, descriptor)


if __name__ == "__main__":
    main()
