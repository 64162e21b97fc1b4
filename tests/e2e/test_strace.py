"""Watching writes nothing on the host: every system call of every program that it runs there, by strace."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.operator import HOST
from tests.e2e.service import Service, adopted

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed (tests/setup/packages)"),
]
CALLS = (
    "open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,mknod,mknodat,symlink,"
    "symlinkat,link,linkat,truncate,ftruncate,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,utime,utimes,utimensat,"
    "futimesat,setxattr,lsetxattr,fsetxattr,removexattr,mount,umount2"
)
# Only what ddtune runs is traced; a test's own looks are not.
TRACED = f"""#!/bin/sh
case "$SSH_ORIGINAL_COMMAND" in
*zlib.decompress* | *ddtune-host* | *sudo* | python3* | */python3*)
  exec strace -f -qq -o "/run/trace/$$" -e trace={CALLS} sh -c "$SSH_ORIGINAL_COMMAND" ;;
esac
exec sh -c "$SSH_ORIGINAL_COMMAND"
"""
WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")
CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += +(-?\d+|\?)")
NOWHERE = ("/dev/null", "/dev/tty", "/dev/nvidia")


def writes(trace: str) -> list[str]:
    """The calls in a trace that change something and succeeded."""
    found = []
    for line in trace.splitlines():
        match = CALL.match(line.replace("<unfinished ...>", ") = ?"))
        if match is None or match[3].startswith("-"):
            continue
        opens = match[1] in ("open", "openat", "openat2", "creat")
        path = re.search(r'"([^"]*)"', match[2])
        if opens and (not WRITES.search(match[2]) or (path is not None and path[1].startswith(NOWHERE))):
            continue
        found.append(line)
    return found


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service on whose host every program of ddtune is traced."""
    with adopted(tmp_path_factory.mktemp("traced")) as service:
        guest = service.guest
        guest.put("/usr/local/bin/traced", TRACED, "755")
        force = 'echo "ForceCommand /usr/local/bin/traced" >>/etc/ssh/sshd_config && systemctl reload ssh'
        guest.ssh(["sh", "-c", force])
        # The daemon begins anew, its port is closed meanwhile, and only the next one forces a command.
        forced = ["sh", "-c", 'echo "$SSH_ORIGINAL_COMMAND"']
        wait_until("a login is traced", lambda: guest.ssh(forced, check=False).stdout.strip())
        yield service


@pytest.fixture
def traced(everything: Service) -> Service:
    """The same with no trace of an earlier test."""
    everything.guest.ssh(["sh", "-c", "rm -rf /run/trace && mkdir /run/trace"])
    return everything


def _traces(service: Service) -> dict[str, str]:
    folder = service.guest.file("/run/trace")
    return {path.name: path.read_text(errors="replace") for path in Path(folder).iterdir()}


def test_watching_and_planning_write_nothing(traced: Service) -> None:
    operator = traced.operator
    for command in (
        ("status", HOST),
        ("doctor", HOST),
        ("history", HOST),
        ("hosts", "test", HOST),
        ("profiles", "list", "--host", HOST),
        ("switch", HOST, "b8", "--dry-run"),
    ):
        answer = operator.run(*command, "--json", timeout=120)
        assert answer.code in (0, 7, 9), answer
    found = _traces(traced)
    assert len(found) >= 6
    assert any("ddtune" in text for text in found.values()), "the programs were traced"
    assert sum(text.count("open") for text in found.values()) > 500
    assert [line for text in found.values() for line in writes(text)] == []


def test_a_write_is_found(traced: Service) -> None:
    """The same look at a command that does write sees it."""
    answer = traced.operator.run("gate", HOST, "--quick", "--json", timeout=120)
    assert answer.code in (0, 9, 10), answer
    assert any("history.jsonl" in line for text in _traces(traced).values() for line in writes(text))


def test_what_counts_as_a_write() -> None:
    trace = """\
11 openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3
11 openat(AT_FDCWD, "/dev/null", O_RDWR) = 3
11 openat(AT_FDCWD, "/x", O_WRONLY|O_CREAT, 0600) = -1 EACCES (Permission denied)
11 openat(AT_FDCWD, "/var/lib/x", O_WRONLY|O_CREAT, 0600) = 4
11 rename("/a", "/b") = 0
11 unlink("/a") = -1 ENOENT (No such file or directory)
11 mkdir("/c", 0755 <unfinished ...>
"""
    assert [line.split("(")[0] for line in writes(trace)] == ["11 openat", "11 rename", "11 mkdir"]
