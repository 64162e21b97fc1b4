"""From a configured host to where SSH finds it."""

from __future__ import annotations

from ddtune.config.model import HostConfig
from ddtune.host.target import Target


def target_of(config: HostConfig) -> Target:
    """The SSH target of ``config``. Raises ``Unreachable('bad_name')``."""
    return Target.parse(
        config.ssh,
        port=config.port,
        user=config.user,
        identity=config.identity,
        known_hosts=config.known_hosts,
        name=config.name,
    )
