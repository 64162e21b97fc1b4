"""How the dashboard is shown, as the command line and the configuration ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Look:
    """``keys`` binds other keys to actions, by the ids of their bindings. ``ascii`` draws with ASCII signs only.
    ``tick_s`` is how often a host is read, in seconds. ``theme`` is a name of ``themes.NAMES``.
    """

    mouse: bool = True
    ascii: bool = False
    tick_s: float = 1.0
    keys: Mapping[str, str] = field(default_factory=dict)
    theme: str = "dark"
