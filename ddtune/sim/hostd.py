"""The embedded host's main process: journal, supervisor and sshd in one event loop. Started by the janitor alone.

``python -m ddtune.sim.hostd ROOT DESCRIPTOR API_PORT SETTINGS``; prints ``{"port": …}`` when a login is
possible, and ends at end of file on standard input or on SIGTERM, with everything that it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from ddtune.sim import control, janitor, kernel, layout, procs
from ddtune.sim.children import Children
from ddtune.sim.journal import Journal, Stream
from ddtune.sim.settings import Settings
from ddtune.sim.supervisor import Supervisor


async def _first_start(root: Path, settings: Settings, supervisor: Supervisor) -> None:
    """Brings a simulated service up warm, and takes back what made it so before anything can start it again."""
    job = supervisor.need(layout.unit_of(settings)).start()
    if job is not None:
        await job.done
    if settings.real is not None:
        return
    drop_in = layout.warm_drop_in(root)
    drop_in.unlink()
    drop_in.parent.rmdir()
    supervisor.reload()


@contextlib.asynccontextmanager
async def services(root: Path, settings: Settings) -> AsyncIterator[Supervisor]:
    """The service manager and its journal, answering the stand-ins; all processes below this one end with the block."""
    journal = Journal(layout.journal_file(root), "b300" if settings.simulated else socket.gethostname())
    if settings.real_gpus:
        kernel.follow(journal)
    elif settings.real is None:
        kernel.watch(journal)
    supervisor = Supervisor(root, journal, layout.journal_socket(root), layout.service_env(root))
    loop = asyncio.get_running_loop()
    streams = await loop.create_unix_server(lambda: Stream(journal), layout.journal_socket(root))
    requests = await control.serve(layout.supervisor_socket(root), supervisor, journal)
    try:
        yield supervisor
    finally:
        requests.close()
        streams.close()
        procs.purge()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(supervisor.end(), 2)
        journal.close()


async def run(root: Path, api_port: int, settings: Settings, ready: Callable[[int], None]) -> None:
    """Serves until it is told to end."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, asked.set)

    def input_moved() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            asked.set()

    loop.add_reader(0, input_moved)
    layout.make(root, settings, api_port)
    children = Children()
    async with services(root, settings) as supervisor:
        first = asyncio.create_task(_first_start(root, settings, supervisor))
        # The service starts while the SSH library is being read, which is the longer part of the host's own start.
        await asyncio.sleep(0)
        from ddtune.sim import server

        keys = server.Keys(root)
        keys.make()
        sshd = await server.serve(keys, children, layout.session_env(root))
        await first
        ready(sshd.get_port())
        await asked.wait()
        sshd.close()


def main() -> None:
    root, descriptor, api_port, settings = sys.argv[1:5]

    def ready(port: int) -> None:
        print(json.dumps({"port": port}), flush=True)

    try:
        asyncio.run(run(Path(root), int(api_port), Settings.from_json(settings), ready))
    finally:
        # The janitor's part, done here too because it may be the janitor that was killed.
        janitor.clean(root, descriptor)


if __name__ == "__main__":
    main()
