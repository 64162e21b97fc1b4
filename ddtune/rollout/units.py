"""Which service of a host is meant."""

from __future__ import annotations

from collections.abc import Sequence

from ddtune.config.model import HostConfig
from ddtune.host.connect import connect
from ddtune.live.target import target_of
from ddtune.onhost.paths import Paths
from ddtune.rollout.errors import Refused


class Ambiguous(Exception):  # noqa: N818 (says what is wrong with the name)
    """The host has several services and none was named; the message lists them."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def choose(host: str, units: Sequence[str]) -> str | None:
    """The only unit, or None when there is none. Raises Ambiguous with the list when there are several."""
    if len(units) > 1:
        raise Ambiguous(f"{host} has several services; name one: " + ", ".join(f"{host}:{unit}" for unit in units))
    return units[0] if units else None


async def adopted_unit(config: HostConfig) -> str:
    """The named unit, or the only adopted one. Raises Refused when nothing is adopted, and Unreachable."""
    if config.unit is not None:
        return config.unit
    async with connect(target_of(config)) as conn:
        result = await conn.run(["ls", "-1", Paths(config.root).state], timeout=15.0)
    names = sorted(line for line in result.out.decode(errors="replace").splitlines() if line.endswith(".service"))
    unit = choose(config.name, names)
    if unit is None:
        raise Refused("not_adopted", f"{config.name} is not under ddtune yet: run `ddtune adopt {config.name}` first.")
    return unit
