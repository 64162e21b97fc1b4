"""The dashboard of several hosts: all in one list, each behind a desk of its own."""

from __future__ import annotations

from collections.abc import Sequence

from textual.screen import Screen

from ddtune.tui.app import DdtuneApp
from ddtune.tui.desk import Desk
from ddtune.tui.look import Look
from ddtune.tui.screens.hosts import HostLive, HostsScreen
from ddtune.tui.screens.questions import QuitScreen

OF_ONE_HOST = frozenset(("switch", "roll_back", "run", "profiles", "log", "history", "unlock"))


class FleetApp(DdtuneApp):
    """``desk`` is that of the host which is open, or was last."""

    LOWEST = 2

    def __init__(self, desks: Sequence[Desk], look: Look | None = None) -> None:
        super().__init__(desks[0], look)
        self._desks = desks
        self.sub_title = ", ".join(desk.config.name for desk in desks)

    def get_default_screen(self) -> Screen[None]:
        """The list of hosts is what everything else leads back to."""
        return HostsScreen(self._desks)

    def on_mount(self) -> None:
        """Begin to read the others too."""
        for desk in self._desks[1:]:
            desk.start(self._frames.moved)

    def on_host_live_wanted(self, event: HostLive.Wanted) -> None:
        """Open one host."""
        self.desk = event.desk
        self.push_screen(HostLive(event.desk))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What belongs to one host is not there while none is open."""
        if action in OF_ONE_HOST and isinstance(self.screen, HostsScreen):
            return False
        return super().check_action(action, parameters)

    async def action_quit(self) -> None:
        """Leave; with a change under way on any host only after a question."""
        busy = next((desk for desk in self._desks if desk.running), None)
        if busy is None:
            self.exit()
        elif not isinstance(self.screen, QuitScreen):
            self.push_screen(QuitScreen(busy.view()), lambda leave: self.exit() if leave else None)
