"""A running embedded host in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ddtune.config.paths import config_dir
from ddtune.profiles.files import shipped_dir

ROOT = Path(__file__).parent.parent.parent


def shorter_gates() -> None:
    """The user's own copies of two profiles: the same axes behind a shorter gate."""
    folder = config_dir() / "profiles"
    folder.mkdir(parents=True)
    for name in ("b8-nvls", "b16-eager"):
        text = (shipped_dir() / f"{name}.toml").read_text().partition("[gate]")[0]
        gate = "[gate]\nconcurrency = [1, 2]\nsoak_s = 40\nsoak_requests = 20\ncoding = 1\n"
        (folder / f"{name}.toml").write_text(text + gate)


@contextmanager
def serving(speed: float, **env: str) -> Iterator[str]:
    """The name of a fresh host, already adopted, that ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ddtune.cli.main", "demo", "--serve", "--until-eof", "--json"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "DDTUNE_SIM_SPEED": str(speed), **env},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield str(json.loads(process.stdout.readline())["host"])
    finally:
        process.stdin.close()
        process.wait(30)
