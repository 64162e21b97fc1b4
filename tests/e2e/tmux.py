"""A terminal that can be looked at: tmux."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.guest import wait_until
from tests.e2e.operator import Operator


class Tmux:
    """A tmux server of its own with one window in which a command runs."""

    def __init__(self, folder: Path, command: list[str], width: int, height: int) -> None:
        self._socket = folder / "tmux"
        size = ["-x", str(width), "-y", str(height)]
        # The window stays when the command has ended, so that what it left behind can be seen.
        shown = f"{shlex.join(command)}; echo ended $?; stty -a; exec cat"
        self("-f", "/dev/null", "new-session", "-d", *size, f"TERM=screen-256color {shown}")

    def __call__(self, *words: str) -> str:
        env = {name: value for name, value in os.environ.items() if name not in ("TMUX", "COLORTERM")}
        command = ["tmux", "-S", str(self._socket), *words]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=30).stdout

    def press(self, *keys: str) -> None:
        for key in keys:
            self("send-keys", key)

    def shown(self, *options: str) -> str:
        return self("capture-pane", "-p", *options)

    def until(self, text: str, limit_s: float = 180) -> str:
        def seen() -> str:
            found = self.shown()
            return found if text in " ".join(found.replace("│", " ").split()) else ""

        try:
            return wait_until(f"{text!r} is shown", seen, limit_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.shown()}") from None


@contextlib.contextmanager
def terminal(folder: Path, command: list[str], width: int = 160, height: int = 48) -> Iterator[Tmux]:
    """``command`` in a terminal that ends with the block; ``folder`` is its own."""
    folder.mkdir(parents=True, exist_ok=True)
    tmux = Tmux(folder, command, width, height)
    try:
        yield tmux
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            tmux("kill-server")


def of(operator: Operator, *words: str) -> list[str]:
    """The command line that runs ``ddtune WORDS`` as ``operator`` in a terminal."""
    env = [f"{name}={value}" for name, value in operator.env.items()]
    return ["env", "-C", str(operator.folder), "-i", *env, "TERM=screen-256color", *operator.argv(*words)]
