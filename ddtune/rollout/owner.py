"""Who runs this ddtune."""

from __future__ import annotations

import getpass
import os
import platform
from typing import Any

from ddtune import __version__


def owner() -> dict[str, Any]:
    """As other operators will be told."""
    return {"who": getpass.getuser(), "host": platform.node(), "pid": os.getpid(), "version": __version__}
