"""What is seen as a file in the working folder: a picture, or plain text."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.app import App


def saved(app: App[None]) -> dict[str, Any]:
    """Save the screen as SVG; gives what ``App.notify`` is to say of it."""
    return _told(app, "svg", lambda path: Path(app.save_screenshot(path.name, str(path.parent))))


def saved_text(app: App[None]) -> dict[str, Any]:
    """Save the screen as plain text, which a clipboard across SSH and tmux may lose; gives as ``saved`` does."""

    def write(path: Path) -> Path:
        path.write_text(text(app), encoding="utf-8")
        return path

    return _told(app, "txt", write)


def text(app: App[None]) -> str:
    """All that stands on the screen, one line for each of its rows."""
    # Textual gives what it has drawn as escape codes or SVG only.
    rows = app.screen._compositor.render_strips()
    return "".join(row.text.rstrip() + "\n" for row in rows)


def _told(app: App[None], kind: str, save: Callable[[Path], Path]) -> dict[str, Any]:
    host = "".join(sign for sign in app.sub_title if sign.isalnum() or sign in "-_.") or "host"
    try:
        path = save(Path.cwd() / f"ddtune-{host}-{time.strftime('%Y%m%d-%H%M%S')}.{kind}")
    except OSError as error:
        return {"message": f"The screen could not be saved: {error.strerror}.", "severity": "error", "markup": False}
    return {"message": f"Saved {path}", "markup": False}
