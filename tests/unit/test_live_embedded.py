"""The hub against the embedded host: the same path as to a real one, with all its parts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from ddtune.config.model import HostConfig
from ddtune.gpu.reading import arch, node_power_w
from ddtune.live.hub import Hub, Predicate
from ddtune.live.snapshot import Snapshot
from ddtune.live.worker import Worker
from ddtune.sim.descriptor import Descriptor
from ddtune.sim.host import EmbeddedHost

LIMIT_S = 30.0


def _config(found: Descriptor) -> HostConfig:
    return HostConfig(
        found.name,
        found.host,
        port=found.port,
        user=found.user,
        identity=Path(found.identity),
        known_hosts=Path(found.known_hosts),
        api_port=found.api_port,
        root=found.root,
        python=found.python,
        simulated=True,
        clock_scale=found.clock_scale,
        nvml_source=Path(found.nvml_source),
    )


def _serves(one: Snapshot) -> bool:
    service = one.service
    return bool(one.gpus and service.accept_length and service.schedulers and service.max_running and one.log)


def test_the_embedded_host_is_seen_whole_and_its_death_too(tmp_path: Path) -> None:
    async def check() -> None:
        async with EmbeddedHost(tmp_path) as host:
            assert host.descriptor is not None
            with Worker() as worker:
                hub = Hub(_config(host.descriptor), worker, tick_s=0.5)
                begun = time.monotonic()
                hub.start()
                one = await _until(hub, lambda one: bool(one.gpus))
                assert time.monotonic() - begun < 2.0
                assert len(one.gpus) == 8
                one = await _until(hub, _serves)
                assert one.service.unit == host.descriptor.unit
                assert (one.service.schedulers, one.service.schedulers_expected) == (8, 8)
                assert arch(one.gpus[0]) == "sm_103"
                assert 8 * 100 < (node_power_w(one.gpus) or 0) < 8 * 1100
                assert one.service.health in ("serving", "idle")
                await host.exec([f"{host.root}/usr/bin/systemctl", "stop", host.descriptor.unit])
                one = await _until(hub, lambda one: one.service.health == "down" and one.service.running is None)
                assert one.service.tokens_per_s is None
                await asyncio.to_thread(hub.stop)

    asyncio.run(check())


async def _until(hub: Hub, wanted: Predicate) -> Snapshot:
    one = await asyncio.to_thread(hub.wait, wanted, LIMIT_S, LIMIT_S)
    assert one is not None
    assert wanted(one), one
    return one
