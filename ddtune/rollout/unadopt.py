"""Taking a service out of ddtune, by whatever right the login has, from whatever state an earlier try has left."""

from __future__ import annotations

from typing import Any

from ddtune.config.model import HostConfig
from ddtune.host.connect import connect
from ddtune.host.helper import Helper
from ddtune.live.target import target_of
from ddtune.rollout import privilege
from ddtune.rollout.errors import Refused, require_writable
from ddtune.rollout.install import constants
from ddtune.rollout.owner import owner
from ddtune.rollout.survey import survey
from ddtune.rollout.units import choose

# The helper's verb needs a unit; where no trace of one is left only the programs are taken away.
NO_UNIT = "ddtune-none.service"


async def unadopt(config: HostConfig) -> dict[str, Any]:
    """The helper's answer. Raises Ambiguous, Refused, the helper's errors and Unreachable."""
    require_writable(config)
    async with connect(target_of(config)) as conn:
        found = await survey(conn, config)
        traces = sorted({*(found.get("adopted") or ()), *(found.get("drop_ins") or ())})
        unit = config.unit or choose(config.name, traces)
        may = await privilege.find(conn, config)
        fields: dict[str, Any] = {"programs": True, "keep_helper": not may.installs, "owner": owner()}
        helper = Helper(conn, root=config.root, python=config.python, login_is_root=may.kind == "root")
        if may.installs:
            return await helper.call_uninstalled("unadopt", unit or NO_UNIT, install=constants(config), **fields)
        if may.hello is None:
            raise Refused("not_adopted" if not traces else "read_only", may.why)
        return await helper.call("unadopt", unit or NO_UNIT, **fields)
