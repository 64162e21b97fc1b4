"""The profiles that a user of this small service would write."""

from __future__ import annotations

from pathlib import Path

from tests.engine.unit import MAX_RUNNING, NOISY_MODEL

# At a dozen tokens a second a gate for a large model would take an hour.
GATE = """
[gate]
concurrency = [4]
soak_s = 2
soak_requests = 8
coding = {coding}
max_tokens = 24
singles = 1
crowd = 4
tokens = 12
copy_words = 16
long_copy_words = 24
mixed = 0
wide = 0
sampled = 0
long_prompt_words = 0
long_tokens = 24
"""
AXES = '[axes]\nalgorithm = "none"\ngraphs = true\noverlap = true\nmax_running = {max_running}\n'
EIGHT, FOUR = AXES.format(max_running=MAX_RUNNING), AXES.format(max_running=4)
PROFILES = {
    "smol8": (EIGHT, 0),
    "smol4": (FOUR, 1),
    "noisy": (f'args = ["--model-path", "{NOISY_MODEL}"]\n{FOUR}', 0),
    # That the value is none can only be said by the installed build.
    "unknown": (f'args = ["--schedule-policy", "best-first"]\n{FOUR}', 0),
    # That there is too little memory is found out by nothing but a start.
    "starved": (f'args = ["--mem-fraction-static", "0.001"]\n{FOUR}', 0),
}


def write(folder: Path) -> None:
    """Puts them where the operator's ddtune finds them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (text, coding) in PROFILES.items():
        (folder / f"{name}.toml").write_text(text + GATE.format(coding=coding))
