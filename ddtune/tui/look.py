"""How the dashboard is shown, as the command line and the configuration ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Look:
    """``keys`` binds other keys to actions, by the ids of their bindings. ``ascii`` draws with ASCII signs only."""

    mouse: bool = True
    ascii: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)
