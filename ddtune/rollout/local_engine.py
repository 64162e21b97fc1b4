"""The flag check by an SGLang that is installed beside ddtune (the extra ``engine``): for profiles without a host."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ddtune.onhost import flag_check
from ddtune.onhost.build_probe import blindfolded, last_json, program_length
from ddtune.onhost.in_engine import source
from ddtune.profiles.model import Release
from ddtune.rollout.engine_check import findings
from ddtune.rollout.model import Finding

MODEL = ("--model-path", "/model")
"""A model for a release that names none; no engine finds one there."""


def installed() -> bool:
    """Whether this Python has an SGLang."""
    return importlib.util.find_spec("sglang") is not None


def check(release: Release, running: Sequence[str] = (), python: str = sys.executable) -> list[Finding]:
    """What the local engine says against ``release``; ``running`` is the argv that a host serves with, if there is one.

    What a flag is, and which values it takes, holds anywhere. What the flags mean together needs the model, which is
    seldom here: a refusal of that kind counts where the local engine accepts ``running``. Takes some ten seconds.
    """
    return findings(_answer(release, running, python))


def _answer(release: Release, running: Sequence[str], python: str) -> Mapping[str, Any]:
    program = source(flag_check.PROGRAM)
    if program is None:
        return {"verdict": "unknown", "text": "the check itself is not installed"}
    request = {
        "control": _words(running),
        "candidate": _words(release.argv),
        "env_set": dict(release.env_set),
        "env_unset": list(release.env_unset),
    }
    try:
        done = subprocess.run(
            [python, "-c", program],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=flag_check.LIMIT_S,
            env=blindfolded(os.environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"verdict": "unknown", "text": str(error)}
    said = last_json(done.stdout)
    candidate = said.get("candidate")
    if isinstance(candidate, dict) and candidate.get("stage") == "parse":
        return {"verdict": "refused", "text": candidate.get("text")}
    return flag_check.judged(said, done.returncode, done.stderr, 0.0)


def _words(argv: Sequence[str]) -> list[str]:
    words = list(argv[program_length(argv) or 0 :])
    named = any(
        word == MODEL[0] or word.startswith((f"{MODEL[0]}=", "--model=")) or word == "--model" for word in words
    )
    return words if named else [*MODEL, *words]
