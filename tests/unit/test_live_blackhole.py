"""A link whose packets vanish without a reset, between two network namespaces."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest

from ddtune.config.model import HostConfig
from ddtune.live.collect import SILENCE_S
from ddtune.live.hub import Hub
from ddtune.live.snapshot import Snapshot
from ddtune.live.worker import Worker
from tests.unit.collector_box import NVML, box
from tests.unit.host_server import _run

LIMIT_S = 40.0
ENDING_S = 4.0
_CLONE_NEWNET = 0x40000000


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass(frozen=True)
class Wire:
    """Two ends of a wire; the far one is in a namespace of its own."""

    name: str
    near: str
    far: str

    def cut(self) -> None:
        """From now on packets go out and vanish."""
        ip("-n", self.name, "link", "set", f"f{self.name}", "down")

    def mend(self) -> None:
        ip("-n", self.name, "link", "set", f"f{self.name}", "up")

    def listen(self) -> socket.socket:
        """A listening socket at the far end; it stays there whoever uses it."""
        made: list[socket.socket] = []

        def inside() -> None:
            with open(f"/run/netns/{self.name}", encoding="ascii") as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET) == 0:
                    made.append(socket.create_server((self.far, 0)))

        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
        assert made, "the namespace cannot be entered"
        return made[0]


@pytest.fixture
def wire() -> Iterator[Wire]:
    number = os.getpid() % 250
    name = f"bh{os.getpid() % 100000}"
    made = Wire(name, f"10.231.{number}.1", f"10.231.{number}.2")
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespaces here: {error}")
    try:
        ip("link", "add", f"n{name}", "type", "veth", "peer", "name", f"f{name}", "netns", name)
        ip("addr", "add", f"{made.near}/30", "dev", f"n{name}")
        ip("link", "set", f"n{name}", "up")
        ip("-n", name, "addr", "add", f"{made.far}/30", "dev", f"f{name}")
        made.mend()
        yield made
    finally:
        ip("netns", "del", name)


@pytest.mark.parametrize("silence_s", [4.0, pytest.param(SILENCE_S, marks=pytest.mark.slow, id="as-shipped")])
def test_a_black_holed_link_is_found_and_marked_and_comes_back(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silence_s: float
) -> None:
    monkeypatch.setattr("ddtune.live.collect.SILENCE_S", silence_s)
    host_key, client_key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    identity, known_hosts, stand_in = tmp_path / "id", tmp_path / "known_hosts", tmp_path / "stand_in.py"
    client_key.write_private_key(str(identity))
    identity.chmod(0o600)
    stand_in.write_text(NVML)
    listening = wire.listen()
    port = listening.getsockname()[1]
    known_hosts.write_text(f"[{wire.far}]:{port} {host_key.export_public_key().decode()}")
    changed = threading.Condition()

    def look(_one: Snapshot) -> None:
        with changed:
            changed.notify_all()

    def until(hub: Hub, wanted: Callable[[Snapshot], bool]) -> Snapshot:
        deadline = time.monotonic() + LIMIT_S
        with changed:
            while not wanted(hub.latest()):
                assert changed.wait(max(0.0, deadline - time.monotonic())), hub.latest().link
        return hub.latest()

    connections: list[asyncssh.SSHServerConnection] = []

    class Watching(asyncssh.SSHServer):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            connections.append(conn)

    async def check() -> None:
        server = await asyncssh.listen(
            sock=listening,
            server_host_keys=[host_key],
            authorized_client_keys=asyncssh.import_authorized_keys(client_key.export_public_key().decode()),
            server_factory=Watching,
            process_factory=_run,
            encoding=None,
        )
        (tmp_path / "box").mkdir()
        with box(tmp_path / "box") as made, Worker() as worker:
            config = HostConfig(
                "box",
                f"ops@{wire.far}",
                port=port,
                identity=identity,
                known_hosts=known_hosts,
                api_port=made.port,
                root=str(made.root),
                python=sys.executable,
                nvml_source=stand_in,
            )
            hub = Hub(config, worker, tick_s=0.5)
            hub.subscribe(look)
            hub.start()
            await asyncio.to_thread(until, hub, lambda one: one.link.state == "up" and bool(one.gpus))
            wire.cut()
            cut_at = time.monotonic()
            lost = await asyncio.to_thread(until, hub, lambda one: one.link.state == "lost")
            assert time.monotonic() - cut_at < 2 * silence_s
            assert "nothing came from box" in (lost.link.error or "")
            assert lost.gpus
            assert (lost.ages.gpus or 0.0) > silence_s * 2 / 3
            wire.mend()
            hub.retry()
            await asyncio.to_thread(until, hub, lambda one: one.link.state == "up" and (one.ages.gpus or 9.0) < 2)
            await asyncio.to_thread(hub.stop)
        server.close()
        for connection in connections:
            connection.abort()
        # The collector of the link that was cut ends with its input.
        if left := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(left, timeout=ENDING_S)

    asyncio.run(check())
