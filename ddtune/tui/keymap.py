"""Which ids of bindings there are, so that a configuration that names another is told so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from textual.binding import Binding, BindingsMap

from ddtune.config.errors import ConfigError
from ddtune.config.names import did_you_mean


def ids() -> dict[str, str]:
    """Each id with the key that it has by default."""
    return {binding.id: binding.key for binding in _bindings() if binding.id}


def checked(keys: Mapping[str, str]) -> dict[str, str]:
    """``keys`` with ids that there are. Raises ConfigError for another."""
    known = ids()
    for name in keys:
        if name not in known:
            raise ConfigError(f"keys.{name} is no binding{did_you_mean(name, list(known))}; `?` lists them by id")
    return dict(keys)


def _bindings() -> Iterator[Binding]:
    from ddtune.tui import keys
    from ddtune.tui.replay import ReplayApp
    from ddtune.tui.screens.base import SubScreen
    from ddtune.tui.screens.dialog import Dialog
    from ddtune.tui.screens.hosts import HostsScreen
    from ddtune.tui.screens.live import LiveScreen
    from ddtune.tui.screens.log import LogScreen
    from ddtune.tui.screens.plan import PlanScreen
    from ddtune.tui.screens.profiles import ProfilesScreen
    from ddtune.tui.screens.progress import ProgressScreen

    screens = (SubScreen, Dialog, HostsScreen, LiveScreen, LogScreen, PlanScreen, ProfilesScreen, ProgressScreen)
    for bindings in (keys.BINDINGS, ReplayApp.BINDINGS, *(screen.BINDINGS for screen in screens)):
        yield from (one for _, one in BindingsMap(bindings))
