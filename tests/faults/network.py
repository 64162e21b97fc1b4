"""Two network namespaces of a test's own, joined by a veth pair: the host's and the operator's."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.guest import booted
from tests.e2e.operator import Operator
from tests.faults.site import LIMITS, Site, adopt

HOST_IP, OPERATOR_IP = "10.77.0.1", "10.77.0.2"
HOST_IP6, OPERATOR_IP6 = "fd77::1", "fd77::2"
CLONE_NEWNET = 0x40000000


class Network:
    """``host`` and ``operator`` are pids whose network namespaces are the two ends; everything ends with them."""

    def __init__(self) -> None:
        self._keepers = [_keeper(), _keeper()]
        self.host, self.operator = (keeper.pid for keeper in self._keepers)
        self._run(self.host, "ip", "link", "add", "far", "type", "veth", "peer", "near", "netns", str(self.operator))
        for pid, name, four, six in (
            (self.host, "far", HOST_IP, HOST_IP6),
            (self.operator, "near", OPERATOR_IP, OPERATOR_IP6),
        ):
            self._run(pid, "ip", "address", "add", f"{four}/24", "dev", name)
            self._run(pid, "ip", "-6", "address", "add", f"{six}/64", "dev", name, "nodad")
            for one in ("lo", name):
                self._run(pid, "ip", "link", "set", one, "up")

    def _run(self, pid: int, *argv: str) -> str:
        inside = ["nsenter", f"--net=/proc/{pid}/ns/net", *argv]
        return subprocess.run(inside, check=True, capture_output=True, text=True).stdout

    def black_hole(self) -> None:
        """From now on every packet is lost, both ways, and nobody is told: no packet fits the bucket."""
        for pid, name in ((self.host, "far"), (self.operator, "near")):
            bucket = ("tbf", "rate", "8bit", "burst", "1", "limit", "1")
            self._run(pid, "tc", "qdisc", "replace", "dev", name, "root", *bucket)

    def heal(self) -> None:
        """Packets pass again."""
        for pid, name in ((self.host, "far"), (self.operator, "near")):
            self._run(pid, "tc", "qdisc", "del", "dev", name, "root")

    def reset(self) -> None:
        """Each connection of the operator's is torn down by a RST."""
        self._run(self.operator, "ss", "--kill", "--tcp", "dst", HOST_IP)

    def dialling(self) -> bool:
        """The operator's side has given a connection up and tries a new one."""
        return bool(self._run(self.operator, "ss", "--no-header", "--tcp", "state", "syn-sent").strip())

    def close(self) -> None:
        for keeper in self._keepers:
            keeper.kill()
            keeper.wait()


def _keeper() -> subprocess.Popen[bytes]:
    words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", "echo up && exec sleep 3600"]
    keeper = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert keeper.stdout is not None
    assert keeper.stdout.readline() == b"up\n", "a network namespace could not be made"
    return keeper


class FarOperator(Operator):
    """ddtune at the operator's end."""

    network: Network

    def argv(self, *args: str) -> list[str]:
        return ["nsenter", f"--net=/proc/{self.network.operator}/ns/net", *super().argv(*args)]


@contextlib.contextmanager
def within(pid: int) -> Iterator[None]:
    """This thread, and what it starts, in the network namespace of ``pid``."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as before, Path(f"/proc/{pid}/ns/net").open() as inside:
        assert libc.setns(inside.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            yield
        finally:
            assert libc.setns(before.fileno(), CLONE_NEWNET) == 0, "the test's own network could not be entered again"


@contextlib.contextmanager
def far_site(folder: Path, **limits: Any) -> Iterator[tuple[Site, Network]]:
    """An adopted service in the host's namespace, with its operator at the far end of the wire.

    ``limits`` are of the operator's configuration; its other fields go in ``fields``, the engine's flags in ``flags``.
    """
    fields, flags = limits.pop("fields", {}), limits.pop("flags", ())
    network = Network()
    try:
        with within(network.host), booted(folder) as guest:
            config = "/etc/ssh/sshd_config"
            guest.console(["sed", "-i", f"s/^ListenAddress .*/&\\nListenAddress {HOST_IP}/", config])
            guest.console(["systemctl", "restart", "ssh"])
            known = guest.known_hosts.read_text()
            guest.known_hosts.write_text(known + known.replace("127.0.0.1", HOST_IP))
            operator = FarOperator(guest, folder / "operator", LIMITS | limits, ssh=f"root@{HOST_IP}", **fields)
            operator.network = network
            yield adopt(guest, operator, flags), network
    finally:
        network.close()
