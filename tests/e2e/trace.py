"""What every program of a guest's logins did to files: strace on its sshd, which sees sudo and what runs under it too.

Each program is known by the last thing that its process executed, so that what sshd and sudo write for themselves can
be told from what the programs write that they start.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.guest import Guest, wait_until

CALLS = (
    "open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,mknod,mknodat,symlink,"
    "symlinkat,link,linkat,truncate,ftruncate,fallocate,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,utime,"
    "utimes,utimensat,futimesat,setxattr,lsetxattr,fsetxattr,removexattr,lremovexattr,fremovexattr,mount,umount2"
)
PROCESSES = "execve,execveat,clone,clone3,fork,vfork"
FOLDER = "/run/trace"
SSHD = ("sshd", "sshd-session", "sshd-auth")
# What they write for themselves, and why.
OF_OTHERS: Mapping[str, tuple[str, ...]] = {
    # Who is logged in, its children's score for the out-of-memory killer, a terminal, what PAM and logind want.
    **dict.fromkeys(
        SSHD, ("/run/utmp", "/var/run/utmp", "/var/log/", "/proc/", "/dev/", "/run/systemd/", "/run/motd", "/sys/fs/")
    ),
    # Its record of terminals and users, and its log.
    "sudo": ("/run/sudo", "/var/run/sudo", "/var/lib/sudo", "/var/log/", "/run/utmp", "/dev/tty", "/proc/"),
}
# PAM's message of the day, which a login's own scripts write.
LOGIN = ("/run/motd.dynamic",)
NOWHERE = ("/dev/null", "/dev/tty", "/dev/nvidia")

_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")
_CALL = re.compile(r"^(\w+)\((.*)\) += +(-?\d+|\?)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_DESCRIPTOR = re.compile(r"(?:\d+|AT_FDCWD)<([^>]*)>")


@dataclass(frozen=True)
class Seen:
    """``programs`` counts the processes by the name of what they executed; ``calls`` all that was looked at.

    ``writes`` are the calls that changed something: program, path, call. ``others`` are those of sshd and sudo for
    themselves.
    """

    programs: Mapping[str, int] = field(default_factory=dict)
    calls: int = 0
    writes: tuple[tuple[str, str, str], ...] = ()
    others: tuple[tuple[str, str, str], ...] = ()

    def paths(self) -> list[str]:
        return sorted({path for _, path, _ in self.writes})


def write_of(line: str) -> tuple[str, str] | None:
    """Path and call of a line that changed something and succeeded; None for any other line."""
    match = _CALL.match(line.replace("<unfinished ...>", ") = ?"))
    if match is None or match[3].startswith("-") or match[1] in PROCESSES.split(","):
        return None
    path = _path(match[2])
    opens = match[1] in ("open", "openat", "openat2", "creat")
    if opens and match[1] != "creat" and not _WRITES.search(match[2]):
        return None
    return None if opens and path.startswith(NOWHERE) else (path, line)


def _path(arguments: str) -> str:
    """The first path of a call's arguments, whole: beside a name that is not stands its folder."""
    named, beside = _QUOTED.search(arguments), _DESCRIPTOR.search(arguments)
    if named is None or (beside and not named[1].startswith("/") and beside.start() < named.start()):
        folder = beside[1] if beside else "?"
        return f"{folder.rstrip('/')}/{named[1]}" if named else folder
    return named[1]


def attributed(traces: Mapping[int, str], root: str = "sshd") -> Seen:
    """What the processes of ``traces`` (one text each, by pid) did; those that nobody there began are ``root``."""
    programs: dict[str, int] = {}
    born: dict[int, str] = {}
    writes: list[tuple[str, str, str]] = []
    others: list[tuple[str, str, str]] = []
    calls = 0
    waiting = dict(traces)
    children = {child for text in traces.values() for child in _children(text)}
    while waiting:
        pid = next((one for one in waiting if one in born or one not in children), min(waiting))
        program = born.get(pid, root)
        for line in waiting.pop(pid).splitlines():
            calls += 1
            if line.startswith(("execve(", "execveat(")):
                executed = _QUOTED.search(line)
                if executed and re.search(r"\) += 0$", line):
                    program = executed[1].rsplit("/", 1)[-1]
                    programs[program] = programs.get(program, 0) + 1
            for child in _children(line):
                born[child] = program
            if write := write_of(line):
                own = (*OF_OTHERS.get(program, ()), *LOGIN)
                (others if write[0].startswith(own) else writes).append((program, *write))
    return Seen(programs, calls, tuple(writes), tuple(others))


def _children(text: str) -> list[int]:
    return [int(pid) for pid in re.findall(r"^(?:clone3?|v?fork)\(.*\) += (\d+)", text, re.MULTILINE)]


def _inside(guest: Guest) -> list[str]:
    return [
        "nsenter",
        "--target",
        str(guest.init_pid),
        "--mount",
        "--uts",
        "--ipc",
        "--pid",
        "--cgroup",
        "--root",
        "--wd=/",
    ]


class Trace:
    """A running strace; ``seen`` is what it has seen when the block is over."""

    seen: Seen = Seen()


@contextlib.contextmanager
def traced(guest: Guest, *, with_sudo: bool = False) -> Iterator[Trace]:
    """Every login on ``guest`` during the block is looked at.

    What stops at the calls that are looked for alone is fast and may not become root: ``with_sudo`` stops at each call.
    """
    _run(guest, "sh", "-c", f"rm -rf {FOLDER} && mkdir -m 1777 {FOLDER}")
    options = shlex.split(f"strace -f -ff -y -qq -o {FOLDER}/t -e trace={CALLS},{PROCESSES}")
    found = Trace()
    with _attached(guest, options) if with_sudo else _begun(guest, options):
        yield found
        texts = [path for path in guest.file(FOLDER).iterdir() if path.suffix[1:].isdigit()]
        found.seen = attributed({int(path.suffix[1:]): path.read_text(errors="replace") for path in texts})


@contextlib.contextmanager
def _attached(guest: Guest, options: list[str]) -> Iterator[None]:
    daemon = guest.file("/run/sshd.pid").read_text().strip()
    with _strace(guest, [*options, "-p", daemon]) as strace:
        status = guest.file(f"/proc/{daemon}/status")
        wait_until("sshd is traced", lambda: "TracerPid:\t0" not in status.read_text() or strace.poll() is not None, 15)
        assert strace.poll() is None, strace.communicate()
        yield


@contextlib.contextmanager
def _begun(guest: Guest, options: list[str]) -> Iterator[None]:
    _run(guest, "systemctl", "stop", "ssh")
    # systemd has taken it away with its service.
    _run(guest, "mkdir", "-p", "/run/sshd")
    try:
        words = [*options, "--seccomp-bpf", "/usr/sbin/sshd", "-D", "-o", "PidFile=none"]
        with _strace(guest, words, end_all=True) as strace:
            wait_until("it listens", lambda: guest.listens() or strace.poll() is not None, 30)
            assert strace.poll() is None, strace.communicate()
            yield
    finally:
        _run(guest, "systemctl", "start", "ssh")
        wait_until("sshd listens", guest.listens, 30)


@contextlib.contextmanager
def _strace(guest: Guest, words: list[str], end_all: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """A strace, which lets go in order at the end; with ``end_all`` what it has begun ends with it."""
    strace = subprocess.Popen([*_inside(guest), *words], stderr=subprocess.PIPE)
    try:
        yield strace
    finally:
        # What nsenter has started is the strace itself.
        for pid in _begun_by(strace.pid):
            begun = _begun_by(pid) if end_all else []
            for one in (pid, *begun):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL if end_all else signal.SIGTERM)
        strace.communicate(timeout=30)


def _begun_by(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _run(guest: Guest, *words: str) -> None:
    subprocess.run([*_inside(guest), *words], check=True, capture_output=True)
