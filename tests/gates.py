"""Shorter gates, for tests of something else: every check is planned, each with less to send."""

from __future__ import annotations

from pathlib import Path

from ddtune.profiles.files import shipped_dir

SHORTENED = ("b8-nvls", "b16-eager", "b12", "b32", "b64")
GATE = """\
[gate]
concurrency = [1, 32]
soak_s = 40
soak_requests = 20
coding = 2
singles = 2
crowd = 8
wide = 8
mixed = 6
sampled = 4
long_tokens = 300
"""


def shorten(profiles: Path, *names: str) -> None:
    """Puts a user's own copies of shipped profiles into ``profiles``: the same axes behind a shorter gate."""
    profiles.mkdir(parents=True, exist_ok=True)
    for name in names:
        text = (shipped_dir() / f"{name}.toml").read_text().partition("[gate]")[0]
        (profiles / f"{name}.toml").write_text(text + GATE)
