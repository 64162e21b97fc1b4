"""The options of every command that opens a screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from ddtune.cli import report

if TYPE_CHECKING:
    from ddtune.tui.look import Look

Command = Callable[..., None]


def look_options(command: Command) -> Command:
    """``--ascii`` and ``--no-mouse``."""
    for option in (
        click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal, to select text with it."),
        click.option("--ascii", "as_ascii", is_flag=True, help="Draw with ASCII signs only."),
    ):
        command = option(command)
    return command


def look(*, as_ascii: bool, no_mouse: bool, tick_s: float = 1.0) -> Look:
    """How the screen is to be, by these and by the configuration; a key for what is not there ends the command."""
    from ddtune.config.errors import ConfigError
    from ddtune.config.load import load_screen
    from ddtune.tui.keymap import checked
    from ddtune.tui.look import Look

    try:
        wanted = load_screen()
        return Look(mouse=not no_mouse, ascii=as_ascii, tick_s=tick_s, keys=checked(wanted.keys), theme=wanted.theme)
    except ConfigError as error:
        report.fail(str(error), report.USAGE, cause="usage", as_json=False)
