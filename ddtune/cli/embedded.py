"""The embedded host with ddtune's own programs installed and its service adopted on b8-nvls."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ddtune.cli import report
from ddtune.config.paths import runtime_dir
from ddtune.host import bundle
from ddtune.profiles import store
from ddtune.rollout.transaction import owner
from ddtune.sim.host import EmbeddedHost, HostError
from ddtune.sim.settings import Settings

PROFILE = "b8-nvls"
DIALECT = "ddtree-pr29907"
ARCH = "sm_103"


@asynccontextmanager
async def start_embedded(*, as_json: bool) -> AsyncIterator[str]:
    """Start, adopt and publish an embedded host; gives its name, and ends all of it with the block."""
    try:
        host = EmbeddedHost(runtime_dir(), Settings.from_env(os.environ))
    except ValueError as error:
        report.fail(str(error), report.USAGE, cause="usage", as_json=as_json, host="demo")
    try:
        async with host:
            assert host.descriptor is not None
            unit = host.descriptor.unit
            await host.install(bundle.pyz())
            build = await host.ask({"proto": 1, "verb": "probe_build", "unit": unit})
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
            host.publish()
            yield host.name
    except HostError as error:
        report.fail(str(error), report.BUG, cause="unknown", as_json=as_json, host="demo")
