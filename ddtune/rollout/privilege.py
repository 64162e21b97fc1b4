"""How a login becomes root on a host, found out before anything is begun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.host.connection import Connection
from ddtune.host.errors import HelperFailed, HelperRefused
from ddtune.host.helper import Helper

PROBE_S = 20.0


@dataclass(frozen=True)
class Privilege:
    """``kind`` is ``root``, ``sudo`` (any command without a password), ``helper`` (that one alone), ``viewer`` (the
    helper without verbs that change anything) or ``none``.

    ``hello`` is the installed helper's answer, or None and ``why`` it gave none.
    """

    kind: str
    user: str
    hello: Mapping[str, Any] | None = None
    why: str = ""

    @property
    def installs(self) -> bool:
        """Whether this login may write the programs."""
        return self.kind in ("root", "sudo")


async def find(conn: Connection, config: HostConfig) -> Privilege:
    """What this login may do. As root runs only the helper's ``hello`` and an empty Python. Raises Unreachable."""
    hello: Mapping[str, Any] | None = None
    why = ""
    helper = Helper(conn, root=config.root, python=config.python)
    try:
        hello = await helper.call("hello")
    except (HelperFailed, HelperRefused) as error:
        why = error.message
    if conn.user == "root":
        return Privilege("root", conn.user, hello, why)
    if await _any_command(conn, config):
        return Privilege("sudo", conn.user, hello, why)
    kind = "none" if hello is None else "viewer" if helper.only_looks else "helper"
    return Privilege(kind, conn.user, hello, why)


async def _any_command(conn: Connection, config: HostConfig) -> bool:
    """Whether sudo runs whatever it is told without asking."""
    nothing = [config.python, "-I", "-c", "pass"]
    if not config.root:
        # Listed first: a try that is not allowed is written down as an incident.
        listed = await conn.run(["sudo", "-n", "-l", *nothing], timeout=PROBE_S)
        if listed.rc:
            return False
    # Listing does not say whether a later line asks for a password; running does.
    return (await conn.run(["sudo", "-n", *nothing], timeout=PROBE_S)).rc == 0
