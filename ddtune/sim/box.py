"""The supervisor's side of a shim: one activation's processes, all of them its own and ended with it."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ddtune.sim import bare


@dataclass(frozen=True)
class Ended:
    """How a process ended: ``exited`` with a status, ``killed`` or ``dumped`` by a signal."""

    how: str
    status: int


@dataclass(frozen=True)
class Process:
    """A process that was started; ``error`` says why its program could not be run, ``ended`` comes true at its end."""

    pid: int
    error: str | None
    ended: asyncio.Future[Ended]


class Box:
    """An activation's processes. ``tags`` name unit and invocation in the journal."""

    def __init__(self, link: socket.socket, child: subprocess.Popen[bytes], unit: str, invocation: str) -> None:
        self._link = link
        self._child = child
        self._tags = {"unit": unit, "invocation": invocation}
        self._numbers = itertools.count()
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ends: dict[int, asyncio.Future[Ended]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, journal: Path, unit: str, invocation: str) -> Self:
        ours, theirs = socket.socketpair()
        with theirs:
            child = subprocess.Popen(  # noqa: ASYNC220 - asyncio would watch it, but the host itself reaps
                bare.command("shim", str(theirs.fileno()), str(journal)),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        box = cls(ours, child, unit, invocation)
        reader, box._writer = await asyncio.open_unix_connection(sock=ours)
        box._reading = asyncio.create_task(box._read(reader))
        return box

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            message = json.loads(line)
            if "exit" in message:
                self._end(message["exit"], Ended(message["how"], message["status"]))
            else:
                self._answers.pop(message["tag"]).set_result(message)
        # A shim that was killed takes its processes' ends with it.
        for pid in list(self._ends):
            self._end(pid, Ended("killed", 9))
        for answer in self._answers.values():
            answer.set_exception(ConnectionError("the shim has gone"))

    def _end(self, pid: int, ended: Ended) -> None:
        future = self._ends.setdefault(pid, asyncio.get_running_loop().create_future())
        if not future.done():
            future.set_result(ended)

    async def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._writer is not None
        tag = next(self._numbers)
        answer = self._answers[tag] = asyncio.get_running_loop().create_future()
        self._writer.write(json.dumps({"tag": tag, **request}).encode() + b"\n")
        found: dict[str, Any] = await answer
        return found

    async def spawn(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> Process:
        """Starts a program as systemd does: a session of its own, nothing on standard input, output to the journal."""
        journal = {**self._tags, "identifier": Path(argv[0]).name}
        answer = await self._ask(do="spawn", argv=list(argv), env=dict(env), cwd=cwd or "/", journal=journal)
        pid = answer["pid"]
        future = self._ends.setdefault(pid, asyncio.get_running_loop().create_future())
        return Process(pid, answer["error"], future)

    async def kill(self, sig: int, pid: int | None = None) -> list[tuple[int, str]]:
        """Signals one process, or all; returns ``(pid, name)`` of those that it reached."""
        return [(pid, name) for pid, name in (await self._ask(do="kill", sig=int(sig), pid=pid))["hit"]]

    async def purge(self) -> list[tuple[int, str]]:
        """Kills all that is left and waits for its end; returns what was killed."""
        return [(pid, name) for pid, name in (await self._ask(do="purge"))["hit"]]

    async def close(self) -> None:
        """Ends the shim, and with it whatever is left."""
        if self._writer is not None:
            self._writer.close()
        if self._reading is not None:
            await self._reading
        self._child.returncode = 0  # the host reaps every child itself
