"""What the installed engine can be told: the flags of its ``--help`` and its version, without touching a GPU."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from .as_user import run_as

HELP_LIMIT_S = 120.0
_PACKAGE_LIMIT_S = 20.0

# Of systemd's own making: a process that we start is not the service.
SERVICE_ONLY = (
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "NOTIFY_SOCKET",
    "SYSTEMD_EXEC_PID",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
)
_FLAG = re.compile(r"(?<![\w-])--[A-Za-z0-9][\w-]*")
_DEFINITION = re.compile(r"^ {1,4}(-\S.*?)(?: {2,}.*)?$", re.MULTILINE)
_FIND_PACKAGE = """\
import importlib.metadata, importlib.util, json, os, re
spec = importlib.util.find_spec("sglang")
folder = list(spec.submodule_search_locations or [])[0] if spec else None
try:
    version = importlib.metadata.version("sglang")
except importlib.metadata.PackageNotFoundError:
    version = None
if folder and version is None:
    for name in ("version.py", "_version.py", "__init__.py"):
        path = os.path.join(folder, name)
        text = open(path, encoding="utf-8", errors="replace").read() if os.path.exists(path) else ""
        found = re.search(r"^(?:__version__|version)\\b[^=\\n]*= *['\\"]([^'\\"]+)", text, re.MULTILINE)
        version = version or (found and found.group(1))
print(json.dumps({"folder": folder, "version": version}))
"""


class ProbeError(Exception):
    """The installed engine did not say what it knows; the text says why."""


def program_length(argv: Sequence[str]) -> int | None:
    """How many words of ``argv`` name the engine: interpreter, its options and the module; None for no engine."""
    for index in range(1, len(argv)):
        before, word = argv[index - 1], argv[index]
        if (before == "-m" and word == "sglang.launch_server") or word.endswith("/sglang/launch_server.py"):
            return index + 1
        if word == "serve" and (before in ("sglang", "sglang.cli.main") or before.endswith("/sglang")):
            return index + 1
    return None


def flags_of(help_text: str) -> list[str]:
    """The long flags that an argparse help defines, sorted; those that its prose merely mentions are left out."""
    defined = "\n".join(match.group(1) for match in _DEFINITION.finditer(help_text))
    return sorted(set(_FLAG.findall(defined or help_text)))


def probe(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], user: Optional[str], cache: Optional[Mapping[str, Any]]
) -> dict[str, Any]:
    """The build behind ``argv``: ``{"flags", "version", "build", "help_rc", "seconds", "key"}``.

    Runs the program's ``--help`` as ``user`` in ``cwd`` with ``env`` and no GPU in sight. ``cache`` is an earlier
    answer, given again while interpreter and package are unchanged. Raises ``ProbeError`` and ``as_user.RunError``.
    """
    length = program_length(argv)
    if length is None:
        raise ProbeError(
            "the service does not run sglang.launch_server or sglang serve, so its flags cannot be asked for"
        )
    program = list(argv[:length])
    if cache and cache.get("key") == package_key(program, cache.get("folder")):
        return dict(cache, seconds=0.0)
    start = time.monotonic()
    env = blindfolded(env)
    status, out, _ = run_as([program[0], "-c", _FIND_PACKAGE], cwd, env, user, _PACKAGE_LIMIT_S)
    found = last_json(out) if status == 0 else {}
    status, out, err = run_as([*program, "--help"], cwd, env, user, HELP_LIMIT_S)
    flags = flags_of(out.decode("utf-8", "replace")) if status == 0 else []
    if not flags:
        tail = (err or out).decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise ProbeError(f"{' '.join(program)} --help ended with status {status}: {tail[0][:300]}")
    digest = hashlib.sha256("\n".join(flags).encode()).hexdigest()[:8]
    version, folder = found.get("version"), found.get("folder")
    return {
        "flags": flags,
        "version": version,
        "build": f"{version or 'unknown'}+{digest}",
        "help_rc": status,
        "seconds": round(time.monotonic() - start, 3),
        "folder": folder,
        "key": package_key(program, folder),
    }


def blindfolded(env: Mapping[str, str]) -> dict[str, str]:
    """The service's environment for a program of ours: not the service itself, and with no GPU in sight."""
    kept = {name: value for name, value in env.items() if name not in SERVICE_ONLY}
    return {**kept, "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}


def package_key(program: Sequence[str], folder: str | None) -> list[Any]:
    """What a cached answer of the installed package depends on."""
    return [list(program), _mtime(program[0]), folder, _mtime(folder)]


def _mtime(path: str | None) -> int | None:
    try:
        return os.stat(path).st_mtime_ns if path else None
    except OSError:
        return None


def last_json(out: bytes) -> dict[str, Any]:
    """The object on the last line, for an interpreter that prints warnings before it."""
    try:
        value = json.loads(out.splitlines()[-1])
    except (ValueError, IndexError):
        return {}
    return value if isinstance(value, dict) else {}
