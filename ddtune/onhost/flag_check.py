"""Whether the installed engine takes a command line, asked of the engine itself before anything is stopped."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from .as_user import RunError, run_as
from .build_probe import blindfolded, last_json, package_key, program_length
from .in_engine import source

LIMIT_S = 120.0
PROGRAM = "ddtune.inengine.check_flags"
KEPT = 64
"""Answers that are kept at most."""

# With the GPUs hidden, the engine's word on what they can do is worth nothing.
_OF_THE_GPU = re.compile(r"(?i)\b(?:gpus?|cuda|hip|rocm|sm_?\d+|capability|blackwell|hopper|driver)\b")


def check(
    running: Sequence[str],
    argv: Sequence[str],
    env_set: Mapping[str, str],
    env_unset: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    user: Optional[str],
    folder: Optional[str],
    cache: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """``(answer, cache)``: the engine's word on ``argv`` and the cache with it.

    ``running`` is the command line that the engine serves with now; ``folder`` its package, whose change makes old
    answers void. ``answer`` is ``{"verdict", "stage", "text", "seconds"}``: ``accepted``; ``refused`` with the
    ``stage`` and the engine's own words; or ``unknown`` with the reason in ``text``.
    """
    program = source(PROGRAM)
    length, other = program_length(running), program_length(argv)
    if length is None or other is None or program is None:
        return _unknown("the service does not run sglang.launch_server or sglang serve"), dict(cache)
    if list(argv[:other]) != list(running[:length]):
        return _unknown("the command line starts another program than the one that runs"), dict(cache)
    env = blindfolded(env)
    request = {
        "control": list(running[length:]),
        "candidate": list(argv[other:]),
        "env_set": dict(env_set),
        "env_unset": list(env_unset),
    }
    asked = [package_key(running[:length], folder), request, cwd, dict(env), program]
    key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()
    if key in cache:
        return {**cache[key], "seconds": 0.0}, dict(cache)
    began = time.monotonic()
    try:
        status, out, err = run_as([running[0], "-c", program], cwd, env, user, LIMIT_S, json.dumps(request).encode())
    except RunError as error:
        return _unknown(str(error), time.monotonic() - began), dict(cache)
    found = judged(last_json(out), status, err, time.monotonic() - began)
    if found["verdict"] == "unknown":
        return found, dict(cache)
    return found, dict([*cache.items(), (key, found)][-KEPT:])


def judged(said: Mapping[str, Any], status: int, err: bytes, seconds: float) -> dict[str, Any]:
    """The answer for what the program in the engine said."""
    candidate = said.get("candidate")
    if not isinstance(candidate, dict):
        tail = err.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
        return _unknown(f"the check ended with status {status}: {tail[0][:300]}", seconds)
    stage, text = str(candidate.get("stage")), str(candidate.get("text"))
    if stage == "accepted":
        return _answer("accepted", None, "", seconds)
    control = (said.get("control") or {}).get("stage")
    # A word that the engine's parser refuses, where it takes what runs, has nothing to do with the GPUs.
    parsed = stage == "parse" and control in ("accepted", "resolve")
    if stage == "crashed" or (control != "accepted" and not parsed):
        return _unknown(f"with no GPU in sight it refuses what runs now as well ({text})", seconds)
    if stage == "resolve" and said.get("gpu_hidden") and _OF_THE_GPU.search(text):
        return _unknown(f"with no GPU in sight it says: {text}", seconds)
    return _answer("refused", stage, text, seconds)


def _unknown(text: str, seconds: float = 0.0) -> dict[str, Any]:
    return _answer("unknown", None, text, seconds)


def _answer(verdict: str, stage: str | None, text: str, seconds: float) -> dict[str, Any]:
    return {"verdict": verdict, "stage": stage, "text": text, "seconds": round(seconds, 3)}
