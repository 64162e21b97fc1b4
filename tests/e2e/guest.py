"""A throw-away host for end-to-end tests: a real systemd and a real sshd in namespaces of their own."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tests.e2e.unit import UNIT, unit_file

HERE = Path(__file__).parent
CHECKOUT = HERE.parent.parent
T = TypeVar("T")
ROOT_ENVIRONMENT = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    *("HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "LANG=C.UTF-8"),
)


def free_port() -> int:
    """A free loopback port, below the range from which the kernel gives ports to whoever connects."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(what: str, probe: Callable[[], T], timeout: float = 30, every: float = 0.1) -> T:
    """Calls ``probe`` until its answer is true and returns that; fails with ``what`` after ``timeout`` seconds."""
    end = time.monotonic() + timeout
    while not (answer := probe()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(every)
    return answer


class Guest:
    """One guest host: users root, ops and sglang, an SSH port and an API port of its own on 127.0.0.1.

    Its files live as long as this object, so ``power_cut`` or ``power_off`` and then ``boot`` are a reboot.
    ``folder`` (private to the test) keeps the login key and known_hosts. The guest's clock, network and abstract
    sockets are this machine's.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"ddtune-{uuid.uuid4().hex[:8]}"
        self.port = free_port()
        self.api_port = free_port()
        self.identity = folder / "id_ed25519"
        self.known_hosts = folder / "known_hosts"
        self._base = folder / "base"
        self._cgroup = _cgroup_root() / self.name
        self._init: subprocess.Popen[bytes] | None = None
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.identity], check=True)
        self._base.mkdir()
        self._keeper = self._start_keeper()

    def _start_keeper(self) -> subprocess.Popen[bytes]:
        """A process whose private mount namespace holds the guest's files; nothing is mounted outside it."""
        keep = 'mount -t tmpfs -o size=8g,mode=755 tmpfs "$0" && cp "$1" "$0/authorized_keys" && echo up && exec cat'
        alone = shlex.split("setpriv --pdeathsig KILL unshare --mount --propagation private")
        keeper = subprocess.Popen(
            [*alone, "sh", "-c", keep, self._base, f"{self.identity}.pub"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == b"up\n", "the guest's files could not be mounted"
        return keeper

    def boot(self) -> None:
        """Starts the guest and returns when both users can log in."""
        assert self._init is None, "already up"
        self._cgroup.mkdir(exist_ok=True)
        boot = [
            "bash",
            HERE / "boot-guest.sh",
            str(self._keeper.pid),
            self._cgroup,
            self.name,
            str(self.port),
            self._base,
        ]
        reachable = [CHECKOUT, Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve()]
        log = (self.folder / "boot.log").open("ab")
        self._init = subprocess.Popen(
            [*boot, *reachable],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        wait_until(f"{self.name} listens ({self.folder / 'boot.log'})", self.listens, every=0.02)
        host_key = self.file("/etc/ssh/ssh_host_ed25519_key.pub").read_text().split()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {host_key[0]} {host_key[1]}\n")
        # pam_nologin refuses ops until the boot is over.
        wait_until("ops can log in", lambda: self.ssh(["true"], user="ops", check=False).returncode == 0)

    def listens(self) -> bool:
        """Whether its sshd takes connections."""
        assert self._init is not None
        assert self._init.poll() is None, (self.folder / "boot.log").read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as probe:
            return probe.recv(8).startswith(b"SSH-2.0")
        return False

    @property
    def init_pid(self) -> int:
        """The guest's PID 1 as this machine numbers it."""
        assert self._init is not None, "not up"
        return int(Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children").read_text().split()[0])

    def file(self, path: str) -> Path:
        """``path`` of the running guest, seen from here; an absolute link in it points at this machine's files."""
        return Path(f"/proc/{self.init_pid}/root{path}")

    def ssh(
        self,
        argv: Sequence[str],
        stdin: bytes = b"",
        user: str = "root",
        timeout: float = 60,
        check: bool = True,
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs ``argv`` in the guest over a fresh login."""
        words = [*self.ssh_argv(), f"{user}@127.0.0.1", shlex.join(argv)]
        return _checked(argv, subprocess.run(words, input=stdin, capture_output=True, timeout=timeout), check)

    def console(
        self, argv: Sequence[str], stdin: bytes = b"", timeout: float = 60, check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs ``argv`` in the guest as root without a login, as at its console: 10 ms where a login takes 400."""
        inside = ["nsenter", "--target", str(self.init_pid), "--mount", "--uts", "--ipc", "--pid", "--cgroup", "--root"]
        words = [*inside, "--wd=/", "env", "-i", "-C", "/root", *ROOT_ENVIRONMENT, *argv]
        return _checked(argv, subprocess.run(words, input=stdin, capture_output=True, timeout=timeout), check)

    def ssh_argv(self) -> list[str]:
        """The command line of a login, up to ``USER@127.0.0.1``."""
        options = {
            "IdentityFile": self.identity,
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self.known_hosts,
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "LogLevel": "ERROR",
        }
        command = ["ssh", "-F", "none", "-p", str(self.port)]
        for key, value in options.items():
            command += ["-o", f"{key}={value}"]
        return command

    def out(self, argv: Sequence[str], user: str = "root") -> str:
        """What ``argv`` prints in the guest, stripped; another user than root logs in for it."""
        done = self.console(argv) if user == "root" else self.ssh(argv, user=user)
        return done.stdout.decode().strip()

    def show(self, prop: str, unit: str = UNIT) -> str:
        """One property of a unit in the guest."""
        return self.out(["systemctl", "show", "--value", "-p", prop, unit])

    def main_argv(self, unit: str = UNIT) -> list[str]:
        """The command line of the unit's main process once the launcher has become it; empty when it has none."""
        return self._main(unit)[0]

    def main_env(self, unit: str = UNIT) -> dict[str, str]:
        """The environment of the unit's main process once the launcher has become it."""
        return dict(line.split("=", 1) for line in self._main(unit)[1])

    def _main(self, unit: str) -> tuple[list[str], list[str]]:
        """Arguments and environment; those of a launcher that stays one for 10 s are its own."""
        end = time.monotonic() + 10
        while (pid := self.show("MainPID", unit)) != "0":
            with contextlib.suppress(OSError):
                about = self.file(f"/proc/{pid}")
                argv, env = ((about / name).read_text().split("\0")[:-1] for name in ("cmdline", "environ"))
                # Empty while a program takes the place of another.
                if (argv and "become" not in argv[:5]) or time.monotonic() > end:
                    return argv, env
            time.sleep(0.02)
        return [], []

    def put(self, path: str, text: str, mode: str = "644") -> None:
        """Writes a file in the guest as root."""
        write = 'mkdir -p "$(dirname "$0")" && cat >"$0" && chmod "$1" "$0"'
        self.console(["sh", "-c", write, path, mode], text.encode())

    def install_unit(self, unit: str = UNIT, flags: Sequence[str] = (), **environment: str) -> None:
        """Puts the simulated engine's unit and GPUs into the guest; does not start it. See ``unit_file``."""
        self.put("/usr/local/bin/nvidia-smi", (HERE / "nvidia_smi.py").read_text(), "755")
        self.put(f"/etc/systemd/system/{unit}", unit_file(self.api_port, flags, environment))
        self.console(["systemctl", "daemon-reload"])

    def ready(self) -> bool:
        """Whether the service's API takes requests."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.api_port), 2) as api:
            api.settimeout(2)
            api.sendall(b"GET /ready HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n")
            return api.recv(64).split(b" ")[1:2] == [b"200"]
        return False

    def power_off(self) -> None:
        """An orderly shutdown."""
        assert self._init is not None, "not up"
        self.console(["systemctl", "poweroff", "--no-block"], check=False)
        self._init.wait(90)
        self._init = None

    def power_cut(self) -> None:
        """Everything in the guest ends at once, unasked."""
        if self._init is None:
            return
        with contextlib.suppress(IndexError, FileNotFoundError, ProcessLookupError):
            os.kill(self.init_pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._init.wait(5)
        self._init.kill()
        self._init.wait()
        self._init = None

    def close(self) -> None:
        """Ends the guest and removes what it left on this machine."""
        self.power_cut()
        if self._keeper.poll() is None:
            self._keeper.kill()
        self._keeper.communicate()
        wait_until("the guest's cgroup is empty", self._remove_cgroup)

    def _remove_cgroup(self) -> bool:
        for folder, _, _ in os.walk(self._cgroup, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        return not self._cgroup.exists()


@contextlib.contextmanager
def booted(folder: Path) -> Iterator[Guest]:
    """A guest that is up; ended and cleaned away at exit, whatever happened."""
    guest = Guest(folder)
    try:
        guest.boot()
        yield guest
    finally:
        guest.close()


def _checked(
    argv: Sequence[str], done: subprocess.CompletedProcess[bytes], check: bool
) -> subprocess.CompletedProcess[bytes]:
    if check and done.returncode:
        raise AssertionError(f"{shlex.join(argv)}: rc {done.returncode}\n{done.stdout!r}\n{done.stderr!r}")
    return done


def _cgroup_root() -> Path:
    """Where this machine's cgroup2 is mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, target, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(target)
    raise AssertionError("no cgroup2 is mounted here, and a guest's systemd needs one")
