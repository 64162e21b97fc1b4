"""The profiles that a user of this small service would write."""

from __future__ import annotations

from pathlib import Path

from tests.engine.unit import MAX_RUNNING, NOISY_MODEL

# At a dozen tokens a second a gate for a large model would take an hour.
GATE = """
[gate]
concurrency = [1, 4]
soak_s = 5
soak_requests = 8
coding = {coding}
max_tokens = 60
singles = 2
crowd = 4
tokens = 16
copy_words = 24
long_copy_words = 40
"""
# Its pool of 200 tokens takes neither a long request nor the KV cache that goes with it: only a start finds that out.
PROFILES = {
    "smol8": (f"[axes]\nmax_running = {MAX_RUNNING}\n", 0),
    "smol4": ("[axes]\nmax_running = 4\n", 1),
    "noisy": (f'args = ["--model-path", "{NOISY_MODEL}"]\n[axes]\nmax_running = 4\n', 0),
    "unknown-flag": ('args = ["--no-such-flag", "1"]\n[axes]\nmax_running = 4\n', 0),
    "unknown-value": ('args = ["--schedule-policy", "best-first"]\n[axes]\nmax_running = 4\n', 0),
    "starved": ('args = ["--mem-fraction-static", "0.001"]\n[axes]\nmax_running = 4\n', 0),
}


def write(folder: Path) -> None:
    """Puts them where the operator's ddtune finds them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (text, coding) in PROFILES.items():
        (folder / f"{name}.toml").write_text(text + GATE.format(coding=coding))
