"""Open the dashboard and leave it in order."""

from __future__ import annotations

import gc

from ddtune.config.model import HostConfig
from ddtune.tui.app import DdtuneApp
from ddtune.tui.desk import Desk
from ddtune.tui.look import Look


def dashboard(config: HostConfig, *, write: bool, look: Look) -> int:
    """Stay until the dashboard is left; gives the exit code. Says on the terminal what goes on behind it."""
    desk = Desk(config, write=write, tick_s=look.tick_s)
    app = DdtuneApp(desk, look)
    # What is loaded stays: without it a full collection has little to look through, and takes a frame no more.
    gc.collect()
    gc.freeze()
    try:
        app.run(mouse=look.mouse)
        left = desk.view()
    finally:
        desk.stop()
    if left.run is not None and left.run.active:
        print(  # noqa: T201 (the screen is gone; this is the terminal's)
            f"ddtune: left while a {left.run.kind} was under way; the host decides by itself. "
            f"`ddtune status {config.name}` shows how it ended."
        )
    return app.return_code or 0
