"""Looking writes nothing on the host: every system call of every program that it runs there, by strace."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import click
import pytest

from ddtune.cli.commands import COMMANDS
from ddtune.cli.group import ddtune
from tests.e2e.guest import wait_until
from tests.e2e.onhost import RUN, STATE, OnHost
from tests.e2e.operator import HOST, Operator, ended
from tests.e2e.service import Service, adopted
from tests.e2e.tmux import of, terminal
from tests.e2e.trace import FOLDER, SSHD, Seen, attributed, traced, write_of

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed (tests/setup/packages)"),
]
OP = "<op>"
# Every command of ddtune's stands in one of these. Some can do both.
LOOKS: Mapping[str, tuple[str, ...]] = {
    "status": ("status", HOST),
    "doctor": ("doctor", HOST),
    "history": ("history", HOST),
    "evidence": ("evidence", HOST, OP, "--out", "found.tar.gz"),
    "hosts": ("hosts",),
    "hosts test": ("hosts", "test", HOST),
    "profiles list": ("profiles", "list", "--host", HOST),
    "profiles show": ("profiles", "show", "b8", "--host", HOST),
    "profiles diff": ("profiles", "diff", "b8", "b16", "--host", HOST),
    "profiles check": ("profiles", "check", "b8", "--host", HOST),
    "switch": ("switch", HOST, "b8", "--dry-run"),
    "connect": ("connect", HOST),
    "record": ("record", HOST, "seen.gz", "--for", "4"),
    "watch": ("watch", HOST, "--every", "2"),
}
CHANGES: Mapping[str, tuple[str, ...]] = {
    "adopt": ("adopt", HOST),
    "unadopt": ("unadopt", HOST),
    "switch": ("switch", HOST, "b16", "--yes"),
    "restart": ("restart", HOST, "--yes"),
    "rollback": ("rollback", HOST, "--yes"),
    "abort": ("abort", HOST),
    "gate": ("gate", HOST, "--quick"),
    "canary": ("canary", HOST),
    "golden": ("golden", HOST),
}
# What PAM runs at a login to write the message of the day.
LOGIN_SCRIPTS = ("sh", "run-parts", "uname", "env", "dash")
# They reach no host but their own.
LOCAL = ("demo", "replay", "hosts edit")
# A watch says on the host that it lives, so that its silence can be told; this alone, and the lock for it.
SIGN_OF_LIFE = (f"{STATE}/watch.json", f"{RUN}/lock")


def _commands() -> set[str]:
    found = set()
    context = click.Context(ddtune)
    for name in COMMANDS:
        command = ddtune.get_command(context, name)
        found |= {f"{name} {sub}" for sub in command.commands} if isinstance(command, click.Group) else {name}
        if isinstance(command, click.Group) and command.invoke_without_command:
            found.add(name)
    return found


def test_every_command_is_looked_at() -> None:
    assert {*LOOKS, *CHANGES, *LOCAL} == _commands()


@dataclass(frozen=True)
class Host:
    """An adopted service, one of its operations, and those who come to it.

    They are root, root whose configuration does not say that it may write, or says that it may not, and eve,
    who may only look.
    """

    service: Service
    op: str
    root: Operator
    looking: Operator
    unwilling: Operator
    eve: Operator


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("traced")
    with adopted(folder) as service:
        guest = service.guest
        guest.ssh(["useradd", "--create-home", "eve"])
        guest.ssh(["sh", "-c", "cp -r /home/ops/.ssh /home/eve/ && chown -R eve: /home/eve/.ssh"])
        guest.ssh(["usermod", "-aG", "systemd-journal", "eve"])
        ops = Operator(guest, folder / "ops", ssh="ops@127.0.0.1")
        script = ops.run("adopt", HOST, "--print-installer", "--viewer", "eve")
        assert script.code == 0, script
        guest.ssh(["sh", "-s"], script.out.encode())
        onhost = OnHost(guest)
        op = onhost.arm(onhost.put(7))
        onhost.ok("abort", op=op)
        onhost.wait_settled(op)
        yield Host(
            service,
            op,
            service.operator,
            Operator(guest, folder / "looking", write=None),
            Operator(guest, folder / "unwilling", write=False),
            Operator(guest, folder / "eve", ssh="eve@127.0.0.1", write=None),
        )


def _run(host: Host, operator: Operator, words: tuple[str, ...]) -> int:
    """Runs one command as a user would, to its end; its exit code."""
    asked = [host.op if word == OP else word for word in words]
    if asked[0] == "connect":
        return _connect(operator, asked)
    if asked[0] == "watch":
        return _watch(host, operator, asked)
    for name in ("seen.gz", "found.tar.gz"):
        (operator.folder / name).unlink(missing_ok=True)
    answer = operator.run(*asked, "--json", timeout=150)
    assert "Traceback" not in answer.err, answer
    return answer.code


def _connect(operator: Operator, words: list[str]) -> int:
    with terminal(operator.folder / "tmux", of(operator, *words)) as tmux:
        tmux.until("SERVING", 60)
        tmux.press("P")
        tmux.until("read at", 60)
        tmux.press("q", "H")
        tmux.until("aborted", 30)
        tmux.press("q", "q")
        return int(tmux.until("ended ", 30).split("ended ")[1].split()[0])


def _watch(host: Host, operator: Operator, words: list[str]) -> int:
    before = _programs_run(host)
    process = operator.start(*words, "--json")
    wait_until("it has asked the host", lambda: _programs_run(host) >= before + 4 or process.poll() is not None, 90)
    process.send_signal(signal.SIGTERM)
    return ended(process, 90).code


def _programs_run(host: Host) -> int:
    """How many of ddtune's helpers were started since the trace began."""
    texts = (path.read_text(errors="replace") for path in host.service.guest.file(FOLDER).iterdir())
    return sum(len(re.findall(r'^execve\("/usr/local/libexec/ddtune-host', text, re.MULTILINE)) for text in texts)


def _all(
    host: Host, operator: Operator, commands: Mapping[str, tuple[str, ...]], *, with_sudo: bool = False
) -> tuple[Seen, dict[str, int]]:
    with traced(host.service.guest, with_sudo=with_sudo) as trace:
        codes = {name: _run(host, operator, words) for name, words in commands.items()}
    seen = trace.seen
    # That it looked at anything: shells, interpreters, what they asked.
    assert seen.programs["python3"] >= len(commands) - 2, seen.programs
    assert seen.programs["journalctl"]
    assert seen.programs["systemctl"]
    assert seen.calls > 500 * len(commands)
    return seen, codes


def test_looking_writes_nothing(host: Host) -> None:
    looks = {name: words for name, words in LOOKS.items() if name != "watch"}
    seen, codes = _all(host, host.looking, looks)
    assert seen.writes == ()
    assert {name: code for name, code in codes.items() if code and (name, code) != ("doctor", 9)} == {}


def test_a_watch_writes_its_sign_of_life_alone(host: Host) -> None:
    seen, codes = _all(host, host.looking, {"watch": LOOKS["watch"]})
    assert codes == {"watch": 0}
    assert f"{STATE}/watch.json" in seen.paths()
    assert [path for path in seen.paths() if not path.startswith(SIGN_OF_LIFE)] == []


@pytest.mark.slow
def test_a_read_only_host_is_written_to_by_no_command(host: Host) -> None:
    seen, codes = _all(host, host.unwilling, {**LOOKS, **CHANGES})
    assert seen.writes == ()
    assert codes["switch"] == codes["restart"] == codes["unadopt"] == 7, codes


@pytest.mark.slow
def test_a_viewer_writes_nothing_by_any_command(host: Host) -> None:
    """Another login, whose helper runs as root through sudo: what sudo writes for itself is told from it."""
    seen, codes = _all(host, host.eve, {**LOOKS, **CHANGES}, with_sudo=True)
    assert seen.programs["sudo"] > 5
    assert seen.programs["ddtune-host-ro"] > 5
    assert "ddtune-host" not in seen.programs
    assert seen.writes == ()
    assert {program for program, _, _ in seen.others} <= {*SSHD, "sudo", *LOGIN_SCRIPTS}
    assert codes["switch"] == codes["restart"] == codes["gate"] == codes["unadopt"] == 7, codes


def test_a_write_is_found(host: Host) -> None:
    """The same look at a command that does write sees it, under sudo as well."""
    with traced(host.service.guest, with_sudo=True) as trace:
        assert host.root.run("gate", HOST, "--quick", "--json", timeout=120).code in (0, 9, 10)
        words = ["sudo", "-n", "/usr/local/libexec/ddtune-host-ro"]
        leak = f"touch /run/by-eve; echo x >/tmp/by-eve; {' '.join(words)} </dev/null"
        host.service.guest.ssh(["sh", "-c", leak], user="eve", check=False)
    assert any(path.endswith("history.jsonl") for path in trace.seen.paths())
    assert "/tmp/by-eve" in trace.seen.paths()
    assert "/run/by-eve" not in trace.seen.paths(), "she may not, so that nothing was written"


def test_what_counts_as_a_write() -> None:
    lines = """\
openat(AT_FDCWD</>, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3</etc/passwd>
openat(AT_FDCWD</>, "/dev/null", O_RDWR) = 3</dev/null>
openat(AT_FDCWD</>, "/x", O_WRONLY|O_CREAT, 0600) = -1 EACCES (Permission denied)
openat(AT_FDCWD</>, "/var/lib/x", O_WRONLY|O_CREAT, 0600) = 4</var/lib/x>
rename("/a", "/b") = 0
unlink("/a") = -1 ENOENT (No such file or directory)
fchmod(4</var/lib/y>, 0644) = 0
openat(7</run/sudo/ts>, "eve", O_RDWR|O_CREAT, 0600) = 8</run/sudo/ts/eve>
unlinkat(AT_FDCWD</root>, "x", 0) = 0
mkdir("/c", 0755 <unfinished ...>
execve("/bin/sh", ["sh"], 0x0) = 0
"""
    found = [write_of(line) for line in lines.splitlines()]
    assert [one[0] for one in found if one] == ["/var/lib/x", "/a", "/var/lib/y", "/run/sudo/ts/eve", "/root/x", "/c"]


def test_whose_a_write_is() -> None:
    """What sudo writes for itself is sudo's, what its child writes is not, and neither is anything else of its own."""
    own = 'openat(AT_FDCWD</>, "/run/sudo/ts/eve", O_RDWR|O_CREAT, 0600) = 3\n'
    seen = attributed(
        {
            10: "clone(child_stack=NULL, flags=SIGCHLD) = 11\n",
            11: 'execve("/usr/bin/sudo", ["sudo"], 0x0) = 0\n' + own + "clone3({flags=0}, 88) = 12\n"
            'openat(AT_FDCWD</>, "/etc/x", O_RDWR|O_CREAT, 0600) = 3\n',
            12: own.replace("eve", "ann") + 'execve("/usr/bin/python3", ["python3"], 0x0) = 0\n' + own,
        }
    )
    assert [(program, path) for program, path, _ in seen.others] == [
        ("sudo", "/run/sudo/ts/eve"),
        ("sudo", "/run/sudo/ts/ann"),
    ]
    assert [(program, path) for program, path, _ in seen.writes] == [
        ("sudo", "/etc/x"),
        ("python3", "/run/sudo/ts/eve"),
    ]
    assert seen.programs == {"sudo": 1, "python3": 1}
