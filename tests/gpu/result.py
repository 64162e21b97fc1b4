"""The result of a run on a GPU: one JSON file, written again after each stage, from which the page is rendered."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


class Result:
    """Stages by name in ``data["stages"]``: ``{"ok", "seconds", "error", …}``. Safe to use from several threads."""

    def __init__(self, path: Path, commit: str, began: float, until_s: float) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._began, self._until_s = began, until_s
        self.data: dict[str, Any] = {"commit": commit, "at": time.time(), "machine": machine(), "stages": {}}

    @contextlib.contextmanager
    def stage(self, name: str, needs_s: float = 0.0) -> Iterator[dict[str, Any]]:
        """One stage: what is put into the dict is kept. One that raises is not ok, and the run goes on.

        One that would not end in the run's time is not begun: the block still runs, with ``skip`` true.
        """
        row: dict[str, Any] = {"ok": None, "seconds": 0.0, "error": None}
        began = time.monotonic()
        if began - self._began + needs_s > self._until_s:
            self._keep(name, {**row, "error": "not run: the machine's time was over"})
            raise SkipError(name)
        try:
            yield row
            row["ok"] = row["ok"] is not False
        except Exception as error:  # noqa: BLE001 (a stage that fails is a result)
            row["ok"] = False
            row["error"] = f"{type(error).__name__}: {error}"[:1500]
            row["trace"] = traceback.format_exc()[-1500:]
        finally:
            row["seconds"] = round(time.monotonic() - began, 1)
            self._keep(name, row)

    def put(self, **values: Any) -> None:
        """Keeps values beside the stages."""
        with self._lock:
            self.data.update(values)
            self._write()

    def _keep(self, name: str, row: dict[str, Any]) -> None:
        print(f"{time.monotonic() - self._began:7.1f} s  {name}: {row['ok']} {row['error'] or ''}", flush=True)
        with self._lock:
            self.data["stages"][name] = row
            self._write()

    def _write(self) -> None:
        whole = self.path.with_suffix(".new")
        whole.write_text(json.dumps(self.data, indent=1, default=str))
        whole.replace(self.path)


class SkipError(Exception):
    """A stage that was not begun."""


def attempt(work: Callable[[], object]) -> None:
    """Runs a stage that may not be begun any more."""
    with contextlib.suppress(SkipError):
        work()


def machine() -> dict[str, Any]:
    """What the run was made on, read off it."""
    return {
        "gpus": _lines("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _lines(*argv: str) -> list[str]:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.strip().splitlines()
