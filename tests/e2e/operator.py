"""The operator's side of an end-to-end test: ddtune's command line as a user runs it, against a guest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.guest import CHECKOUT, Guest
from tests.e2e.unit import UNIT

HOST = "b300"


def write_config(guest: Guest, folder: Path, limits: dict[str, float] | None = None, **fields: object) -> Path:
    """A config.toml that names the guest HOST, in ``folder``."""
    path = folder / "config.toml"
    path.write_text(config_text(guest, limits, **fields))
    return path


def config_text(guest: Guest, limits: Mapping[str, float] | None = None, **fields: object) -> str:
    """A config.toml that names the guest HOST; ``fields`` are of its table (None: unsaid), ``limits`` of its limits."""
    table: dict[str, object] = {
        "ssh": "root@127.0.0.1",
        "port": guest.port,
        "identity": str(guest.identity),
        "known_hosts": str(guest.known_hosts),
        "unit": UNIT,
        "api_port": guest.api_port,
        "write": True,
        **fields,
    }
    lines = [f"[hosts.{HOST}]", *_toml(table)]
    if limits:
        lines += [f"[hosts.{HOST}.limits]", *_toml(limits)]
    return "\n".join(lines) + "\n"


def _toml(table: Mapping[str, Any]) -> list[str]:
    # A JSON scalar is a TOML scalar.
    return [f"{key} = {json.dumps(value)}" for key, value in table.items() if value is not None]


@dataclass(frozen=True)
class Answer:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object that ``--json`` prints."""
        assert self.out.strip(), f"exit {self.code}, nothing on standard output; on standard error:\n{self.err}"
        return json.loads(self.out)


def piped(argv: Sequence[str], **where: Any) -> subprocess.Popen[str]:
    """Starts a command whose output ``ended`` reads; ``where`` is the Popen's folder and environment."""
    return subprocess.Popen(
        argv, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **where
    )


def ended(process: subprocess.Popen[str], timeout: float) -> Answer:
    """How a command ended; one that takes over ``timeout`` seconds is killed, and what it had said fails the test."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"{process.args} took over {timeout} s:\n{out}\n{err}") from None
    return Answer(process.returncode, out, err)


class Operator:
    """Runs ``ddtune`` with a configuration, a home and a working folder of its own."""

    def __init__(self, guest: Guest, folder: Path, limits: dict[str, float] | None = None, **fields: object) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.config = write_config(guest, folder, limits, **fields)
        home = folder / "home"
        home.mkdir(exist_ok=True)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(CHECKOUT),
            "DDTUNE_CONFIG": str(self.config),
        }

    @property
    def profiles(self) -> Path:
        """The folder of this operator's own profiles."""
        return self.folder / "profiles"

    def argv(self, *args: str) -> list[str]:
        """The command line that runs ``ddtune ARGS``."""
        return [sys.executable, "-m", "ddtune.cli.main", *args]

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Starts ``ddtune ARGS`` and does not wait for it."""
        return piped(self.argv(*args), env=self.env, cwd=self.folder)

    def run(self, *args: str, timeout: float = 90) -> Answer:
        """Runs ``ddtune ARGS`` to its end."""
        return ended(self.start(*args), timeout)
