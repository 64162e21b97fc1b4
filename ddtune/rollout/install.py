"""The on-host programs put in place by root, and seen to be the same as here."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.host import bundle
from ddtune.host.connection import Connection
from ddtune.host.helper import as_root_run
from ddtune.onhost.paths import PROTO
from ddtune.rollout.errors import Refused
from ddtune.rollout.privilege import Privilege


def constants(config: HostConfig) -> dict[str, Any]:
    """What is rendered into the installation of this host."""
    root = config.root
    return {
        "proto": PROTO,
        "root": root,
        "python": config.python,
        "systemctl": f"{root}/usr/bin/systemctl",
        "systemd_run": f"{root}/usr/bin/systemd-run",
        "journalctl": f"{root}/usr/bin/journalctl",
    }


def install_request(config: HostConfig) -> dict[str, Any]:
    """What the ``install`` program takes: the zipapp and the constants of this host."""
    return {"pyz_b64": base64.b64encode(bundle.pyz()).decode(), "install": constants(config)}


@dataclass(frozen=True)
class Installed:
    """Whether the programs were written, and what is to be said of it."""

    done: bool
    notes: tuple[str, ...] = ()


async def ensure_installed(
    conn: Connection, config: HostConfig, privilege: Privilege, *, renew: bool = False
) -> Installed:
    """Install the programs unless the host has exactly these; with ``renew`` also where something is wrong with them.

    A login that may only call the helper goes on with the programs that are there, unless they are to be renewed.
    Raises Refused where the login may not install, and the helper's errors.
    """
    hello = privilege.hello or {}
    there = hello.get("pyz_sha256")
    same = there == bundle.pyz_sha256()
    if same and not (renew and privilege.installs and hello.get("problems")):
        return Installed(False)
    if privilege.installs:
        answer = await as_root_run(conn, ["install"], install_request(config), python=config.python)
        return Installed(True, (str(answer["note"]),) if answer.get("note") else ())
    if there is not None and not renew:
        return Installed(False)
    raise Refused("read_only", how_to_install(config.name, privilege, there is not None))


def how_to_install(host: str, privilege: Privilege, renew: bool) -> str:
    """What somebody must do who may not install by themselves, in one sentence."""
    what = "other programs than this ddtune" if renew else "none of ddtune's programs yet"
    return (
        f"{host} has {what}, and the login {privilege.user} may not install them: print the installer with "
        f"`ddtune adopt {host} --print-installer >install-ddtune.sh`, read it, run it as root on the host, and then "
        f"`ddtune adopt {host}` goes on."
    )
