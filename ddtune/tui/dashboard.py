"""Open the dashboard and leave it in order."""

from __future__ import annotations

import gc
from collections.abc import Sequence

from ddtune.config.model import HostConfig
from ddtune.tui.app import DdtuneApp
from ddtune.tui.desk import Desk
from ddtune.tui.fleet import FleetApp
from ddtune.tui.look import Look


def dashboard(configs: Sequence[HostConfig], *, write: bool, look: Look) -> int:
    """Stay until the dashboard is left; gives the exit code. Says on the terminal what goes on behind it."""
    desks = [Desk(config, write=write, tick_s=look.tick_s) for config in configs]
    app = DdtuneApp(desks[0], look) if len(desks) == 1 else FleetApp(desks, look)
    # What is loaded stays: without it a full collection has little to look through, and takes a frame no more.
    gc.collect()
    gc.freeze()
    try:
        app.run(mouse=look.mouse)
        left = [desk.view() for desk in desks]
    finally:
        for desk in desks:
            desk.stop()
    for config, view in zip(configs, left, strict=True):
        if view.run is not None and view.run.active:
            print(  # noqa: T201 (the screen is gone; this is the terminal's)
                f"ddtune: left while a {view.run.kind} was under way; the host decides by itself. "
                f"`ddtune status {config.name}` shows how it ended."
            )
    return app.return_code or 0
