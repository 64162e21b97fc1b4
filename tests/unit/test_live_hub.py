"""The hub against a real SSH server with the real collector behind it."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ddtune.config.model import HostConfig
from ddtune.host.errors import Unreachable
from ddtune.live import hub as hub_module
from ddtune.live.hub import Hub
from ddtune.live.snapshot import Snapshot
from ddtune.live.status import status_json
from ddtune.live.worker import Worker
from tests.e2e.guest import wait_until
from tests.unit.collector_box import NVML, Box, box
from tests.unit.host_server import Server, serve

LIMIT_S = 15.0


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker() as made:
        yield made


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Box]:
    (tmp_path / "box").mkdir()
    with box(tmp_path / "box") as found:
        yield found


def _config(server: Server, made: Box, folder: Path) -> HostConfig:
    stand_in = folder / "stand_in.py"
    stand_in.write_text(NVML)
    return HostConfig(
        "box",
        "ops@127.0.0.1",
        port=server.port,
        identity=server.identity,
        known_hosts=server.known_hosts,
        api_port=made.port,
        root=str(made.root),
        python=sys.executable,
        nvml_source=stand_in,
        simulated=True,
    )


def _is_whole(one: Snapshot) -> bool:
    service = one.service
    return bool(one.gpus and one.log and service.tokens_per_s and service.schedulers and service.max_running)


def _said(calls: Path, wanted: str) -> None:
    """The link is up a moment before the journal's program has been started on it."""
    wait_until(f"a program was started with {wanted}", lambda: wanted in calls.read_text(), LIMIT_S)


async def _until(hub: Hub, wanted: Callable[[Snapshot], bool]) -> Snapshot:
    one = await asyncio.to_thread(hub.wait, wanted, LIMIT_S, LIMIT_S)
    assert one is not None
    assert wanted(one), one
    return one


def test_everything_comes_through_and_comes_again_after_the_link_broke(
    tmp_path: Path, made: Box, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "FIRST_WAIT_S", 0.01)
    arrived: list[Snapshot] = []

    async def check() -> None:
        async with serve(tmp_path) as server:
            hub = Hub(_config(server, made, tmp_path), worker, tick_s=0.2)
            unsubscribe = hub.subscribe(arrived.append)
            hub.start()
            try:
                await _until(hub, lambda one: bool(one.gpus))
                one = await _until(hub, lambda one: _is_whole(one) and one.link.rtt_ms is not None)
                assert (one.link.state, one.link.error, one.simulated) == ("up", None, True)
                assert (one.service.unit, one.service.schedulers, one.service.max_running) == ("engine.service", 2, 8)
                assert len([line for line in one.log if line.source == "unit"]) == 2
                status = status_json(one)
                assert status["gpus"][2]["lost"] is True
                assert status["service"]["running"] == 3
                await server.drop_all()
                lost = await _until(hub, lambda one: one.link.state == "lost")
                assert lost.link.error
                again = await _until(hub, lambda one: one.link.state == "up")
                assert again.gpus
                await asyncio.to_thread(_said, made.calls, "--after-cursor=u2")
                unsubscribe()
                count = len(arrived)
            finally:
                await asyncio.to_thread(hub.stop)
            assert len(arrived) == count

    asyncio.run(check())
    assert arrived[0].link.state == "connecting"
    assert [one.at for one in arrived] == sorted(one.at for one in arrived)


def test_a_host_that_does_not_let_us_in_is_said_at_once(tmp_path: Path, made: Box, worker: Worker) -> None:
    async def check() -> None:
        async with serve(tmp_path) as server:
            server.known_hosts.write_text("")
            hub = Hub(_config(server, made, tmp_path), worker)
            hub.start()
            one = await asyncio.to_thread(hub.wait, _is_whole, LIMIT_S, LIMIT_S)
            assert one is not None
            assert one.link.state == "refused"
            assert "host key" in (one.link.error or "")
            with pytest.raises(Unreachable, match="host key"):
                await asyncio.wrap_future(worker.submit(hub.first(_is_whole, LIMIT_S)))
            await asyncio.to_thread(hub.stop)

    asyncio.run(check())


def test_snapshots_go_on_while_the_link_is_dead(worker: Worker, tmp_path: Path) -> None:
    config = HostConfig("box", "127.0.0.1", port=1, known_hosts=tmp_path / "k")
    hub = Hub(config, worker)
    hub.start()
    first = hub.wait(lambda _one: False, LIMIT_S, LIMIT_S)
    assert first is not None
    assert (first.link.state, first.service.health) == ("lost", "unknown")
    later = threading.Event()
    hub.subscribe(lambda one: later.set() if one.at >= first.at + 0.5 else None)
    assert later.wait(LIMIT_S)
    hub.stop()


def test_without_python_the_host_is_told_to_name_one(tmp_path: Path, made: Box, worker: Worker) -> None:
    async def check() -> None:
        async with serve(tmp_path) as server:
            config = _config(server, made, tmp_path)
            hub = Hub(HostConfig(**{**config.__dict__, "python": "/no/python3"}), worker)
            hub.start()
            one = await asyncio.to_thread(hub.wait, _is_whole, LIMIT_S, LIMIT_S)
            assert one is not None
            assert one.link.state == "refused"
            assert "/no/python3" in (one.link.error or "")
            await asyncio.to_thread(hub.stop)

    asyncio.run(check())


def test_a_worker_gives_results_and_ends_with_what_still_runs() -> None:
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    async def inside(worker: Worker) -> bool:
        return worker.inside

    with Worker() as worker:
        assert worker.submit(inside(worker)).result(LIMIT_S)
        assert not worker.inside
        worker.submit(forever())
        worker.submit(asyncio.sleep(0)).result(LIMIT_S)
    assert ended == ["cleaned up"]
    worker.close()
