"""The embedded host with ddtune's own programs installed and its service adopted on b8-nvls."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from ddtune.cli import report
from ddtune.config.paths import runtime_dir
from ddtune.host import bundle
from ddtune.profiles import store
from ddtune.rollout.owner import owner
from ddtune.sim.host import EmbeddedHost, HostError
from ddtune.sim.real import RealEngine
from ddtune.sim.settings import Settings

PROFILE = "b8-nvls"
DIALECT = "ddtree-pr29907"
ARCH = "sm_103"


@asynccontextmanager
async def start_embedded(
    *, as_json: bool, engine: str | None = None, real_gpus: bool = False
) -> AsyncIterator[EmbeddedHost]:
    """Start and publish an embedded host, its simulated engine adopted; ends all of it with the block.

    A real ``engine`` (its command) is left as any other host's service is: not adopted.
    """
    try:
        real = None if engine is None else RealEngine.parse(engine, os.environ)
        host = EmbeddedHost(runtime_dir(), replace(Settings.from_env(os.environ), real=real, real_gpus=real_gpus))
    except ValueError as error:
        report.fail(str(error), report.USAGE, cause="usage", as_json=as_json, host="demo")
    try:
        async with host:
            if real is None:
                await _adopt(host)
            host.publish()
            yield host
    except HostError as error:
        code, cause = (report.BUG, "unknown") if engine is None else (report.CHECK_FAILED, "start_failed")
        report.fail(str(error), code, cause=cause, as_json=as_json, host="demo")


async def _adopt(host: EmbeddedHost) -> None:
    assert host.descriptor is not None
    unit = host.descriptor.unit
    await host.install(bundle.pyz())
    build = await host.ask({"proto": 1, "verb": "probe_build", "unit": unit, "keep": True})
    profile = store.load_profiles()[PROFILE]
    meta = {
        "axes": dict(profile.axes),
        "build": build["build"],
        "expect": {"accept_length": profile.expect.accept_length},
    }
    await host.ask(
        {
            "proto": 1,
            "verb": "adopt",
            "unit": unit,
            "profile": PROFILE,
            "owner": owner(),
            "site": {"dialect": DIALECT, "build": build["build"], "arch": ARCH, "standing": "adopted"},
            "meta": meta,
        }
    )
