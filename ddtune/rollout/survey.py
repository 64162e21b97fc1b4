"""A look at a host as the login sees it, over a program that is sent along and leaves nothing there."""

from __future__ import annotations

import json
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.host.bundle import loader_argv, loader_payload
from ddtune.host.connection import Connection
from ddtune.host.errors import HelperFailed
from ddtune.rollout.errors import Refused
from ddtune.rollout.units import choose

ENTRY = "ddtune.onhost.survey"
LIMIT_S = 180.0
MARK = "ddtune-shell-speaks"
SHELL_S = 15.0


async def survey(conn: Connection, config: HostConfig, *, probe: bool = False) -> dict[str, Any]:
    """The answer of ``ddtune.onhost.survey``; with ``probe`` the engine is asked for its flags, which takes seconds.

    Raises HelperFailed where it gave none, and Unreachable.
    """
    asked = {
        "unit": config.unit,
        "root": config.root,
        "api_port": config.api_port,
        "api_key_file": config.api_key_file,
        "systemctl": f"{config.root}/usr/bin/systemctl",
        "probe": probe,
    }
    result = await conn.run(loader_argv(config.python), loader_payload(ENTRY) + json.dumps(asked).encode(), LIMIT_S)
    for line in reversed(result.out.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "proto" in found:
            return found
    why = result.said or f"it ended with status {result.rc}"
    raise HelperFailed("unknown", f"{config.python} on {conn.label} could not look at the host ({why}).")


async def shell(conn: Connection) -> tuple[bool, str]:
    """Whether the login's shell runs a command and gives its output back, and what it adds to that on its own."""
    result = await conn.run(["sh", "-c", f"echo {MARK}"], timeout=SHELL_S)
    lines = result.out.decode(errors="replace").splitlines()
    if MARK not in lines:
        return False, result.said or f"status {result.rc}"
    return True, " ".join(line for line in lines if line != MARK)[:200]


def meant(config: HostConfig, found: dict[str, Any]) -> str:
    """The service to work on: the named one, or the only one. Raises Ambiguous, or Refused where there is none."""
    if config.unit is not None:
        return config.unit
    unit = choose(config.name, [one["unit"] for one in found["units"]])
    if unit is not None:
        return unit
    loose = found.get("loose") or []
    if loose:
        raise Refused(
            "unsupported_unit",
            f"An SGLang server runs on {config.name} as process {loose[0]['pid']}, but no systemd service has it: "
            "ddtune works on services of systemd; give it a unit first.",
        )
    raise Refused(
        "unsupported_unit",
        f"No running SGLang service was found on {config.name}: start it, or name it as {config.name}:UNIT.",
    )
