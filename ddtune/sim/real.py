"""A real engine on the embedded host: the command that starts it, and the environment that it gets."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")

# What is systemd's, the login's or ddtune's own, and never the service's.
_NOT_PASSED_ON = re.compile(
    r"DDTUNE_|SSH_|SUDO_|XDG_|PYTHON|VIRTUAL_ENV|TERM|LS_COLORS|INVOCATION_ID|JOURNAL_STREAM|NOTIFY_SOCKET|"
    r"SYSTEMD_EXEC_PID|TMPDIR|PWD|OLDPWD|SHLVL|_$|MAKE|MFLAGS"
)


@dataclass(frozen=True)
class RealEngine:
    """``argv`` with an absolute program first, and the service's whole ``environment`` but for the host's own."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, command: str, env: Mapping[str, str]) -> Self:
        """From a command line as a shell takes it, assignments first; ``env`` is what the engine is to inherit.

        Raises ValueError in one sentence.
        """
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"the engine's command cannot be read: {error}.") from None
        given: dict[str, str] = {}
        while words and _ASSIGNMENT.match(words[0]):
            name, _, value = words.pop(0).partition("=")
            given[name] = value
        if not words:
            raise ValueError("the engine's command names no program.")
        # A unit file has no lines to continue and no functions of a shell.
        plain = {name: value for name, value in env.items() if _NAME.fullmatch(name) and "\n" not in value}
        kept = {name: value for name, value in plain.items() if not _NOT_PASSED_ON.match(name)}
        whole = {**kept, **given}
        program = shutil.which(words[0], path=whole.get("PATH", os.defpath))
        if program is None:
            raise ValueError(f"the engine's program {words[0]} is not on this machine.")
        return cls((os.path.abspath(program), *words[1:]), tuple(sorted(whole.items())))

    def on_port(self, port: int) -> tuple[str, ...]:
        """The command line that listens on ``port``, whatever port it named before."""
        kept: list[str] = []
        words = iter(self.argv)
        for word in words:
            if word == "--port":
                next(words, None)
            elif not word.startswith("--port="):
                kept.append(word)
        return (*kept, "--port", str(port))
