"""The socket behind the stand-ins of systemctl, systemd-run and journalctl."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from ddtune.sim.cmdline import Answer
from ddtune.sim.journal import Journal
from ddtune.sim.journalctl import journalctl
from ddtune.sim.supervisor import Supervisor, UnitError
from ddtune.sim.systemctl import Systemctl, systemd_run
from ddtune.sim.withheld import withheld

Program = Callable[[list[str], Answer], Awaitable[int]]


async def serve(path: Path, supervisor: Supervisor, journal: Journal) -> asyncio.Server:
    """Answers the stand-ins on the socket ``path`` (bin/client.py has the frames)."""

    async def read(argv: list[str], answer: Answer) -> int:
        if withheld(path.parent, "journal"):
            await answer.err("No journal files were opened due to insufficient permissions.\n")
            return 1
        return await journalctl(journal, argv, answer)

    programs: dict[str, Program] = {
        "systemctl": Systemctl(supervisor).run,
        "systemd-run": lambda argv, answer: systemd_run(supervisor, argv, answer),
        "journalctl": read,
    }

    async def run(program: str, argv: list[str], answer: Answer) -> int:
        try:
            return await programs[program](argv, answer)
        except UnitError as error:
            await answer.err(f"{error}\n")
            return error.code

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ValueError):
            request = json.loads(await reader.readline())
            work = asyncio.create_task(run(request["program"], request["argv"], Answer(writer)))
            gone = asyncio.create_task(reader.read())
            await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await Answer(writer).out(str(work.result()), b"x")
            for task in (work, gone):
                task.cancel()
        writer.close()

    return await asyncio.start_unix_server(client, path)
