"""One helper call for a command that then ends."""

from __future__ import annotations

import asyncio
from typing import Any

from ddtune.cli.errors import ending
from ddtune.config.model import HostConfig


def ask(config: HostConfig, verb: str, *, as_json: bool, timeout: float = 30.0, **fields: Any) -> dict[str, Any]:
    """The helper's answer; ends the command with 7 when it refuses and with 8 when the host cannot be reached."""
    with ending(config.name, as_json=as_json):
        return asyncio.run(_ask(config, verb, timeout, fields))


async def _ask(config: HostConfig, verb: str, timeout: float, fields: dict[str, Any]) -> dict[str, Any]:
    from ddtune.rollout.link import HostLink
    from ddtune.rollout.units import adopted_unit

    async with HostLink(config, await adopted_unit(config)) as link:
        return await link.once(verb, timeout=timeout, **fields)
