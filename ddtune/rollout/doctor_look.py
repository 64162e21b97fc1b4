"""What ``doctor`` looks at, as whoever is logged in; whatever fails is itself a finding, and nothing is changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.host.bundle import pyz_sha256
from ddtune.host.connect import connect
from ddtune.host.connection import Connection
from ddtune.host.errors import HelperFailed, HelperRefused, Unreachable
from ddtune.host.helper import Helper
from ddtune.live.snapshot import Snapshot
from ddtune.live.target import target_of
from ddtune.rollout import privilege
from ddtune.rollout.survey import shell, survey

PROBE_S = 180.0


@dataclass(frozen=True)
class Seen:
    """Everything that ``doctor`` judges. What could not be looked at is None; ``broken`` says what came in between.

    ``survey`` is the answer of ``ddtune.onhost.survey``, ``build`` that of ``probe_build`` or the survey's own,
    ``state`` and ``inspected`` the host's, where the helper gave them. ``fresh`` is why a second login failed, None
    when it worked.
    """

    host: str
    config: HostConfig
    unreachable: Unreachable | None = None
    broken: str = ""
    user: str = ""
    host_key: str = ""
    login_s: float | None = None
    rtt_s: float | None = None
    shell_speaks: bool | None = None
    shell_says: str = ""
    fresh: str | None = None
    fresh_s: float | None = None
    survey: Mapping[str, Any] | None = None
    privilege: privilege.Privilege | None = None
    build: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None
    inspected: Mapping[str, Any] | None = None
    snapshot: Snapshot | None = None
    wanted_sha256: str = ""

    @property
    def unit(self) -> str | None:
        """The service that is meant."""
        return (self.survey or {}).get("unit") or self.config.unit

    @property
    def service(self) -> Mapping[str, Any]:
        """What the survey says of it; empty where there is none."""
        return (self.survey or {}).get("service") or {}

    @property
    def props(self) -> Mapping[str, str]:
        """systemd's properties of it."""
        return self.service.get("props") or {}


async def look(config: HostConfig, snapshot: Callable[[HostConfig], Snapshot | None]) -> Seen:
    """All that can be seen of a host. ``snapshot`` reads GPUs and engine once. Never raises for what is wrong there."""
    found: dict[str, Any] = {"host": config.name, "config": config, "wanted_sha256": pyz_sha256()}
    begun = time.monotonic()
    try:
        async with connect(target_of(config)) as conn:
            found.update(user=conn.user, host_key=conn.host_key, login_s=time.monotonic() - begun)
            found["rtt_s"] = await conn.rtt()
            await _inside(conn, config, found)
            # None of these waits on another.
            await asyncio.gather(
                _adopted(conn, config, found), _fresh(config, found), _readings(config, snapshot, found)
            )
    except Unreachable as error:
        if "user" not in found:
            found["unreachable"] = error
        else:
            found["broken"] = error.message
    return Seen(**found)


async def _inside(conn: Connection, config: HostConfig, found: dict[str, Any]) -> None:
    """With a login: its shell, its rights, the survey."""
    try:
        found["shell_speaks"], found["shell_says"] = await shell(conn)
    except Unreachable as error:
        found.update(shell_speaks=False, shell_says=error.message)
    if not found["shell_speaks"]:
        return
    found["privilege"] = may = await privilege.find(conn, config)
    try:
        found["survey"] = seen = await survey(conn, config, probe=may.hello is None)
    except HelperFailed as error:
        found["broken"] = error.message
        return
    found["build"] = (seen.get("service") or {}).get("build")


async def _adopted(conn: Connection, config: HostConfig, found: dict[str, Any]) -> None:
    """What the helper says of the service and of the installed engine, where there is one."""
    may, unit = found.get("privilege"), (found.get("survey") or {}).get("unit")
    if may is None or may.hello is None or not unit:
        return
    helper = Helper(conn, root=config.root, python=config.python, login_is_root=may.kind == "root")
    try:
        found["state"] = await helper.call("state", unit, limit=200)
        if found["state"].get("adopted"):
            found["inspected"] = await helper.call("inspect", unit)
        found["build"] = await helper.call("probe_build", unit, timeout=PROBE_S)
    except (HelperRefused, HelperFailed, Unreachable) as error:
        found["broken"] = error.message


async def _fresh(config: HostConfig, found: dict[str, Any]) -> None:
    """Whether a login of its own works as well."""
    begun = time.monotonic()
    try:
        async with connect(target_of(config)):
            found.update(fresh=None, fresh_s=time.monotonic() - begun)
    except Unreachable as error:
        found["fresh"] = error.message


async def _readings(
    config: HostConfig, snapshot: Callable[[HostConfig], Snapshot | None], found: dict[str, Any]
) -> None:
    """GPUs and engine, read once."""
    survey_said = found.get("survey")
    if survey_said:
        unit = survey_said.get("unit") or config.unit
        found["snapshot"] = await asyncio.to_thread(snapshot, replace(config, unit=unit) if unit else config)
