"""The collector of one host as a stream of lines."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
from collections.abc import AsyncGenerator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.host.bundle import loader_argv, loader_payload
from ddtune.host.connection import Connection, Stream
from ddtune.host.errors import Unreachable
from ddtune.live.pack import Unpacker

ENTRY = "ddtune.onhost.collector"
HEARTBEAT_S = 5.0
SILENCE_S = 15.0


async def collect(
    conn: Connection, config: HostConfig, cursors: Mapping[str, str], tick_s: float
) -> AsyncGenerator[dict[str, Any]]:
    """Lines of the collector until the link breaks.

    ``cursors`` are journal positions to go on from, by source. Raises ``Unreachable``: ``lost`` when the link or the
    collector is gone or silent, ``no_python`` when it cannot be started. What is not a JSON object is left out.
    """
    stream = await conn.stream(loader_argv(config.python))
    unpacker = Unpacker()
    beating = asyncio.ensure_future(_feed(stream, config, cursors, tick_s))
    silence_s = SILENCE_S + 3 * tick_s
    try:
        lines = aiter(stream)
        while True:
            try:
                async with asyncio.timeout(silence_s):
                    text = await anext(lines)
            except StopAsyncIteration:
                raise _ended(stream, config) from None
            except TimeoutError:
                raise Unreachable("lost", f"nothing came from {config.name} for {silence_s:g} s.") from None
            try:
                found = unpacker.lines(text)
            except ValueError as error:
                why = "a line was longer than it may be, and left out" if stream.skipped else error
                raise Unreachable("lost", f"{config.name} sent what cannot be read: {why}.") from None
            for line in found:
                yield line
    finally:
        beating.cancel()
        await stream.close()


async def _feed(stream: Stream, config: HostConfig, cursors: Mapping[str, str], tick_s: float) -> None:
    asked = {
        "unit": config.unit,
        "api_port": config.api_port,
        "root": config.root,
        "tick_s": tick_s,
        "api_key_file": config.api_key_file,
        "cursors": dict(cursors),
        "packed": True,
    }
    payload = await asyncio.to_thread(loader_payload, ENTRY, nvml(config.nvml_source))
    with contextlib.suppress(Unreachable):
        await stream.write(payload + json.dumps(asked).encode() + b"\n")
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await stream.write(b"\n")


@cache
def nvml(stand_in: Path | None) -> dict[str, str]:
    """The source of ``pynvml`` that the collector is to use: a stand-in's, else the operator's own; none if neither."""
    if stand_in is None:
        found = importlib.util.find_spec("pynvml")
        if found is None or found.origin is None:
            return {}
        stand_in = Path(found.origin)
    return {"pynvml": stand_in.read_text(encoding="utf-8")}


def _ended(stream: Stream, config: HostConfig) -> Unreachable:
    said = f": {stream.said}" if stream.said else ""
    if stream.rc in (126, 127):
        return Unreachable(
            "no_python", f"{config.python} cannot be run on {config.name}{said}; set python for the host."
        )
    return Unreachable("lost", f"the collector on {config.name} ended{said}.")
