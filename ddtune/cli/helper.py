"""One helper call for a command that then ends."""

from __future__ import annotations

import asyncio
from typing import Any

from ddtune.cli import report
from ddtune.config.model import HostConfig
from ddtune.host.errors import HelperFailed, HelperRefused, Unreachable


def ask(config: HostConfig, verb: str, *, as_json: bool, timeout: float = 30.0, **fields: Any) -> dict[str, Any]:
    """The helper's answer; ends the command with 7 when it refuses and with 8 when the host cannot be reached."""
    from ddtune.rollout.errors import Refused
    from ddtune.rollout.units import Ambiguous

    try:
        return asyncio.run(_ask(config, verb, timeout, fields))
    except Ambiguous as error:
        report.fail(error.message, report.USAGE, cause="usage", as_json=as_json, host=config.name)
    except (Refused, HelperRefused, HelperFailed) as error:
        report.fail(error.message, report.REFUSED, cause=error.cause, as_json=as_json, host=config.name)
    except Unreachable as error:
        report.fail(error.message, report.UNREACHABLE, cause="unreachable", as_json=as_json, host=config.name)


async def _ask(config: HostConfig, verb: str, timeout: float, fields: dict[str, Any]) -> dict[str, Any]:
    from ddtune.rollout.link import HostLink
    from ddtune.rollout.units import adopted_unit

    async with HostLink(config, await adopted_unit(config)) as link:
        return await link.once(verb, timeout=timeout, **fields)
