"""``prepare_server_args(argv).resolve_once()``, as in SGLang: parse first, judge when resolved."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[5]))

from ddtune.sim.engine import flags
from ddtune.sim.engine.launch import Launch, launch
from ddtune.sim.engine.settings import Settings


class ServerArgs:
    """Arguments that parsed. ``resolve_once`` raises ValueError where the engine could not serve them."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = list(argv)
        self._launch: Launch | None = None

    def resolve_once(self) -> None:
        """Resolves, the first time that it is called."""
        if self._launch is None:
            self._launch = launch(self._argv, Settings.from_env(os.environ))

    def resolved_dict(self) -> dict[str, Any]:
        """Every argument with the value that it resolves to."""
        self.resolve_once()
        assert self._launch is not None
        return dict(self._launch.args)


def prepare_server_args(argv: Sequence[str]) -> ServerArgs:
    """Parses ``argv``; exits 2 on bad usage."""
    flags.parser(Settings.from_env(os.environ).build).parse_args(list(argv))
    return ServerArgs(argv)
