"""What the operator asks the collector to watch."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from .paths import Install, Paths, load_install


@dataclass(frozen=True)
class Config:
    """The first line on standard input, as JSON.

    ``unit`` may be null: then the one running sglang unit is watched. ``cursors`` holds the journal cursors from which
    to go on, by source (``unit``, ``kernel``). ``commands`` names the programs; what it leaves out is taken from
    ``install.json`` where ddtune is installed, else from the search path. ``silence_s`` without a heartbeat ends all.
    ``packed``: lines go out deflated.
    """

    unit: Optional[str] = None
    api_port: int = 30000
    root: str = ""
    tick_s: float = 1.0
    api_key_file: Optional[str] = None
    silence_s: float = 30.0
    log_lines: int = 200
    packed: bool = False
    commands: Mapping[str, str] = field(default_factory=dict)
    cursors: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> Paths:
        return Paths(self.root)

    @property
    def install(self) -> Install:
        """The programs to run: those that the operator named, else the installed constants, else the search path's."""
        found = load_install(self.paths.pyz)
        return found._replace(
            root=self.root,
            systemctl=self._command("systemctl") or found.systemctl,
            journalctl=self._command("journalctl") or found.journalctl,
        )

    def _command(self, name: str) -> Optional[str]:
        installed = os.path.exists(self.paths.install)
        return self.commands.get(name) or (None if installed else shutil.which(name))


def parse(line: bytes) -> Config:
    """The configuration in ``line``; unknown keys are left out. Raises ValueError."""
    found: Any = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError("the first line must be a JSON object")
    known = Config.__dataclass_fields__
    return Config(**{key: value for key, value in found.items() if key in known and value is not None})
