"""The process: command line, environment, event loop."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from ddtune.sim.engine import crash
from ddtune.sim.engine.faults import faults
from ddtune.sim.engine.launch import ArgumentsError, launch
from ddtune.sim.engine.lines import Log
from ddtune.sim.engine.settings import Settings


def main(argv: Sequence[str] | None = None) -> None:
    """Serves until it is stopped. Exits 2 on bad usage, 1 on a start that fails; a stop ends with SIGKILL of itself."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        settings = Settings.from_env(os.environ)
        started = launch(list(sys.argv[1:] if argv is None else argv), settings)
        found = faults(started.axes, settings.gpu, settings.scenario)
    except ArgumentsError as error:
        crash.bad_algorithm(Log(1), str(error))
        sys.exit(1)
    except ValueError as error:
        sys.exit(f"ddtune.sim.engine: {error}")

    # The event loop costs more to import than all of the above, and --help needs none.
    import asyncio
    import socket

    from ddtune.sim.engine.api import Api
    from ddtune.sim.engine.engine import Engine
    from ddtune.sim.engine.lifecycle import Lifecycle
    from ddtune.sim.engine.web import Connection

    async def run() -> None:
        engine = Engine(started, settings, found, Log(started.axes.tp_size))
        api = Api(engine)
        servers: list[asyncio.Server] = []

        async def serve() -> None:
            loop = asyncio.get_running_loop()
            host, port = str(started.args["host"]), int(started.args["port"])
            if ":" in host and started.args["tokenizer_worker_num"] > 1:
                # Of several workers uvicorn binds the socket itself, and then it takes IPv4 as well.
                taken = socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=True)
                servers.append(await loop.create_server(lambda: Connection(api.handle), sock=taken))
            else:
                servers.append(await loop.create_server(lambda: Connection(api.handle), host, port))

        await Lifecycle(engine, serve).run()

    asyncio.run(run())
