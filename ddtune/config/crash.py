"""Where the traceback of a bug goes: into a file that only this user reads."""

from __future__ import annotations

import os
import traceback

from ddtune.config.paths import state_dir


def noted(error: BaseException) -> str:
    """Write the traceback of ``error``, without values of variables; gives the file's path, or the traceback itself."""
    text = "".join(traceback.format_exception(error))
    try:
        path = state_dir() / "crash.log"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
    except Exception:  # noqa: BLE001 (whatever is in the way of the file, the text is not lost)
        return text
    return str(path)
