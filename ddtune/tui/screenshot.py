"""A picture of what is seen, as a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from textual.app import App


def saved(app: App[None]) -> dict[str, Any]:
    """Save the screen as SVG in the working folder; gives what ``App.notify`` is to say of it."""
    host = "".join(sign for sign in app.sub_title if sign.isalnum() or sign in "-_.") or "host"
    name = f"ddtune-{host}-{time.strftime('%Y%m%d-%H%M%S')}.svg"
    try:
        path = Path(app.save_screenshot(name, str(Path.cwd())))
    except OSError as error:
        return {
            "message": f"The screenshot could not be saved: {error.strerror}.",
            "severity": "error",
            "markup": False,
        }
    return {"message": f"Saved {path}", "markup": False}
