"""The dashboard: one host's desk behind the screens."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable
from contextlib import suppress

from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.screen import Screen

from ddtune.config import crash
from ddtune.tui import keys, paint_outcome, screenshot, themes
from ddtune.tui.desk import Desk
from ddtune.tui.frames import Frames
from ddtune.tui.leaving import leave
from ddtune.tui.look import Look
from ddtune.tui.messages import Confirmed
from ddtune.tui.plain import PlainFilter
from ddtune.tui.screens.base import DeskScreen, allowed, keys_of
from ddtune.tui.screens.help import HelpScreen
from ddtune.tui.screens.history import HistoryScreen
from ddtune.tui.screens.live import LiveScreen
from ddtune.tui.screens.log import LogScreen
from ddtune.tui.screens.outcome import OutcomeScreen
from ddtune.tui.screens.plan import PlanScreen
from ddtune.tui.screens.profiles import ProfilesScreen
from ddtune.tui.screens.progress import ProgressScreen
from ddtune.tui.screens.questions import BackScreen, QuitScreen, UnlockScreen
from ddtune.tui.terminal import Driver

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
SHOWN_BY: dict[str, tuple[type[DeskScreen], ...]] = {
    "run": (ProgressScreen, OutcomeScreen),
    "profiles": (ProfilesScreen,),
    "switch": (ProfilesScreen, PlanScreen),
    "log": (LogScreen,),
    "history": (HistoryScreen,),
}
"""Where an action leads to, so that it is not offered there."""


class DdtuneApp(App[None]):
    """Receives moments from the desk and hands them to the screen that is seen."""

    TITLE = "ddtune"
    CSS_PATH = "ddtune.tcss"
    ENABLE_COMMAND_PALETTE = True
    WRITES = frozenset(("switch", "roll_back"))
    BINDINGS = keys.BINDINGS
    LOWEST = 1
    """How many screens lie under those of a change: one host's own is the highest of them."""

    def __init__(self, desk: Desk, look: Look | None = None) -> None:
        super().__init__(driver_class=Driver)
        self.desk = desk
        self.sub_title = desk.config.name
        self._look = look or Look()
        self.set_keymap(dict(self._look.keys))
        if self._look.ascii:
            self._filters.append(PlainFilter())
        self._frames = Frames(self, self._redraw)
        self._keys = keys_of(desk.view())
        self._run_seen = False

    def get_default_screen(self) -> Screen[None]:
        """The live screen is what everything else leads back to."""
        return LiveScreen(self.desk)

    def get_key_display(self, binding: Binding) -> str:
        """The key's sign, or its name where signs are to be ASCII."""
        sign = super().get_key_display(binding)
        return sign if sign.isascii() or not self._look.ascii else binding.key

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Colours of ours for themes that do not have them."""
        return themes.DEFAULTS

    def on_mount(self) -> None:
        """Take our colours, restore the terminal on a signal too, and begin to read."""
        for theme in (themes.DARK, themes.LIGHT):
            self.register_theme(theme)
        self.theme = themes.NAMES[self._look.theme]
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            # Not in the main thread there is no handler to be had, as in a test.
            with suppress(ValueError, RuntimeError):
                loop.add_signal_handler(number, leave, self.exit)
        self._frames.start()
        self.desk.start(self._frames.moved)

    def on_moved(self) -> None:
        """Paint the newest moment."""
        self._frames.arrived()

    def _redraw(self) -> None:
        self._frames.painted()
        view = self.desk.view()
        if self._run_seen and view.run is not None and not view.run.active:
            self._run_seen = False
            self._run_ended()
        seen = next((screen for screen in reversed(self.screen_stack) if isinstance(screen, DeskScreen)), None)
        if seen is not None:
            seen.refresh_view()
        if keys_of(view) != self._keys:
            self._keys = keys_of(view)
            self.refresh_bindings()

    def _run_ended(self) -> None:
        if isinstance(self.screen, ProgressScreen):
            self.switch_screen(OutcomeScreen(self.desk))
            return
        run = self.desk.view().run
        ended = paint_outcome.title(run.outcome) if run and run.outcome else "broke off"
        self.notify(f"{run.kind if run else 'change'}: {ended}. o shows why.", markup=False, timeout=20)

    def on_confirmed(self, event: Confirmed) -> None:
        """Carry out what was confirmed, and watch it."""
        self.desk.carry_out(event.plan)
        self._watch_run()

    def _watch_run(self) -> None:
        self._run_seen = True
        while len(self.screen_stack) > self.LOWEST:
            self.pop_screen()
        self.push_screen(ProgressScreen(self.desk))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Changes are hidden when locked and dead while the host cannot be reached."""
        view = self.desk.view()
        if action in SHOWN_BY and isinstance(self.screen, SHOWN_BY[action]):
            return False
        if action == "switch" and self.desk.running:
            return False
        if action in self.WRITES:
            return allowed(view)
        if action == "unlock":
            return not view.writable and not self.desk.config.read_only
        if action == "run":
            return view.run is not None or view.txn is not None
        return super().check_action(action, parameters)

    def _open(self, screen: DeskScreen) -> None:
        """Open a screen, or come back to it when it is open already."""
        for depth, known in enumerate(reversed(self.screen_stack)):
            if type(known) is type(screen):
                for _ in range(depth):
                    self.pop_screen()
                return
        self.push_screen(screen)

    def action_profiles(self) -> None:
        """Profiles and how they stand."""
        self._open(ProfilesScreen(self.desk))

    def action_switch(self) -> None:
        """Choose a profile to switch to."""
        self.action_profiles()

    def action_run(self) -> None:
        """The change that runs, or how the last one ended."""
        view = self.desk.view()
        ended = view.run is not None and not view.run.active and view.txn is None
        self._open(OutcomeScreen(self.desk) if ended else ProgressScreen(self.desk))

    def action_log(self) -> None:
        """The log in full."""
        self._open(LogScreen(self.desk))

    def action_history(self) -> None:
        """What happened on this host."""
        self._open(HistoryScreen(self.desk))

    def action_roll_back(self) -> None:
        """Ask once, then go back."""

        def answered(confirmed: bool | None) -> None:
            if confirmed:
                self.desk.go_back()
                self._watch_run()

        self.push_screen(BackScreen(self.desk), answered)

    def action_unlock(self) -> None:
        """Ask for the host's name."""

        def answered(confirmed: bool | None) -> None:
            if confirmed:
                self.desk.unlock()
                self._redraw()

        self.push_screen(UnlockScreen(self.desk), answered)

    def action_help(self) -> None:
        """The keys of this screen."""
        self.push_screen(HelpScreen(self.screen.active_bindings.values()))

    async def action_back(self) -> None:
        """Back to the screen below; from the lowest one out."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        else:
            await self.action_quit()

    def action_back_only(self) -> None:
        """Back to the screen below, never out."""
        if len(self.screen_stack) > 1:
            self.pop_screen()

    async def action_quit(self) -> None:
        """Leave; in the middle of a change only after a question."""
        if not self.desk.running:
            self.exit()
        elif not isinstance(self.screen, QuitScreen):
            self.push_screen(QuitScreen(self.desk.view()), lambda leave: self.exit() if leave else None)

    def action_refresh(self) -> None:
        """Paint everything again, and try a lost link at once."""
        self.desk.retry()
        self.refresh(layout=True)
        self._redraw()

    def action_next_theme(self) -> None:
        """The next set of colours."""
        known = themes.CYCLE
        self.theme = known[(known.index(self.theme) + 1) % len(known)] if self.theme in known else known[0]

    def action_save_screen(self) -> None:
        """Save the screen as SVG in the working folder, or say why not."""
        self.notify(**screenshot.saved(self))

    def action_save_text(self) -> None:
        """Save the screen as plain text, where no clipboard can be relied on."""
        self.notify(**screenshot.saved_text(self))

    def _fatal_error(self) -> None:
        """A bug of ours is one sentence on the terminal, and a file."""
        error = self._exception or RuntimeError("unknown")
        self.panic(f"ddtune: a bug of ddtune's: {type(error).__name__}. Please report {crash.noted(error)}")

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette holds what the keys of this screen do, and no more than they may."""
        return keys.commands(self, screen)
