"""Real SSH servers on loopback and a client's configuration of a test's own, for the traps on the way to a host."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.guest import free_port, wait_until


def keygen(path: Path, *more: str, passphrase: str = "") -> Path:
    """A new key at ``path``."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", path, *more], check=True)
    return path


def public(key: Path) -> str:
    """Kind and body of a key's public half."""
    return " ".join(Path(f"{key}.pub").read_text().split()[:2])


def fingerprint(key: Path) -> str:
    done = subprocess.run(["ssh-keygen", "-l", "-f", f"{key}.pub"], capture_output=True, text=True, check=True)
    return done.stdout.split()[1]


class Sshd:
    """One sshd that lets root in with ``login``'s key. ``lines`` go into its configuration."""

    def __init__(self, folder: Path, login: Path, *lines: str, address: str = "127.0.0.1") -> None:
        folder.mkdir()
        self.port = free_port()
        self.address = address
        self.key = keygen(folder / "host_key")
        authorized = folder / "authorized_keys"
        authorized.write_text(f"{public(login)}\n")
        config = folder / "sshd_config"
        # The first of two values counts.
        config.write_text(
            "\n".join(
                [
                    *lines,
                    f"Port {self.port}",
                    f"ListenAddress {address}",
                    f"HostKey {self.key}",
                    f"AuthorizedKeysFile {authorized}",
                    f"PidFile {folder / 'pid'}",
                    "StrictModes no",
                    "PermitRootLogin prohibit-password",
                    "PasswordAuthentication no",
                    "KbdInteractiveAuthentication no",
                    "AllowTcpForwarding yes",
                    "UsePAM no",
                ]
            )
            + "\n"
        )
        os.makedirs("/run/sshd", exist_ok=True)
        self.log = folder / "log"
        self._process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", config, "-E", self.log])
        wait_until(f"sshd listens ({self.log})", self._listens, 15, 0.02)

    def _listens(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()
        with contextlib.suppress(OSError), socket.create_connection((self.address, self.port), 1):
            return True
        return False

    @property
    def known(self) -> str:
        """Its line of known_hosts."""
        return f"[{self.address}]:{self.port} {public(self.key)}\n"

    def logins(self) -> int:
        """How often somebody was let in."""
        return self.log.read_text(errors="replace").count("Accepted publickey")

    def cut(self) -> None:
        """Ends the server and every connection to it, without a word."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        self._process.kill()
        for child in children:
            # The server first: it would tell of the end of its command.
            for one in [child, *Path(f"/proc/{child}/task/{child}/children").read_text().split()]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(one), 9)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            self.cut()
        self._process.wait()


class Client:
    """The operator's side: a key, known_hosts and ssh_config of its own, which every ``ssh`` on PATH reads."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.login = keygen(folder / "login")
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.write_text("")
        self.config = folder / "ssh_config"
        programs = folder / "bin"
        programs.mkdir()
        wrapper = programs / "ssh"
        wrapper.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F "{self.config}" "$@"\n')
        wrapper.chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        self._servers: list[Sshd] = []
        self.configure()

    def configure(self, *lines: str) -> None:
        """The configuration: ``lines``, then what holds for every host."""
        common = [
            "Host *",
            "  User root",
            f"  IdentityFile {self.login}",
            f"  UserKnownHostsFile {self.known_hosts}",
            "  GlobalKnownHostsFile /dev/null",
        ]
        self.config.write_text("\n".join([*lines, *common]) + "\n")

    def serve(self, name: str, *lines: str, known: bool = True, address: str = "127.0.0.1") -> Sshd:
        """A new server, in known_hosts unless said otherwise."""
        server = Sshd(self.folder / name, self.login, *lines, address=address)
        self._servers.append(server)
        if known:
            self.known_hosts.write_text(self.known_hosts.read_text() + server.known)
        return server

    def host(self, alias: str, server: Sshd, *options: str) -> list[str]:
        """A ``Host`` block."""
        lines = [f"HostName {server.address}", f"Port {server.port}", *options]
        return [f"Host {alias}", *(f"  {line}" for line in lines)]

    def close(self) -> None:
        for server in self._servers:
            server.close()


@contextlib.contextmanager
def client(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    one = Client(folder, monkeypatch)
    try:
        yield one
    finally:
        one.close()
