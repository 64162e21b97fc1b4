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
from tests.gates import SHORTENED, shorten

ROOT = Path(__file__).parent.parent.parent


def shorter_gates() -> None:
    """The user's own copies of profiles: the same axes behind a shorter gate."""
    shorten(config_dir() / "profiles", *SHORTENED)


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
