"""The on-host programs put in place by root, and seen to be the same as here."""

from __future__ import annotations

import base64
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.host import bundle
from ddtune.host.connection import Connection
from ddtune.host.errors import HelperFailed
from ddtune.host.helper import Helper, as_root_run


def install_request(config: HostConfig) -> dict[str, Any]:
    """What the ``install`` program takes: the zipapp and the constants of this host."""
    root = config.root
    return {
        "pyz_b64": base64.b64encode(bundle.pyz()).decode(),
        "install": {
            "proto": 1,
            "root": root,
            "python": config.python,
            "systemctl": f"{root}/usr/bin/systemctl",
            "systemd_run": f"{root}/usr/bin/systemd-run",
            "journalctl": f"{root}/usr/bin/journalctl",
        },
    }


async def ensure_installed(conn: Connection, config: HostConfig) -> bool:
    """Install the programs unless the host has exactly these; says whether it did. Raises the helper's errors."""
    helper = Helper(conn, root=config.root, python=config.python)
    try:
        if (await helper.call("hello")).get("pyz_sha256") == bundle.pyz_sha256():
            return False
    except HelperFailed:
        # Nothing there yet, or programs of another protocol: both are what installing is for.
        pass
    await as_root_run(conn, ["install"], install_request(config), python=config.python)
    return True
