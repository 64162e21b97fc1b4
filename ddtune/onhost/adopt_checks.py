"""Whether a service can be put under ddtune, judged from what systemd and /proc say of it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from typing import Optional

from . import drop_in
from .build_probe import program_length
from .redact import redact_text

PROPERTIES = (
    "LoadState", "ActiveState", "FragmentPath", "DropInPaths", "ExecStart", "MainPID", "InvocationID", "User", "Group",
    "Type", "DynamicUser", "RootDirectory", "RootImage", "KillMode", "Restart", "TimeoutStopUSec", "StartLimitBurst",
    "StartLimitIntervalUSec", "WorkingDirectory",
)  # fmt: skip

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")
_CONTAINERS = ("docker", "podman", "nerdctl", "ctr", "apptainer", "singularity", "systemd-nspawn")
_TYPES = ("simple", "exec", "notify", "notify-reload", "idle")
_VARIABLE = re.compile(r"\$\$|\$\{(\w+)\}|(?<!\S)\$(\w+)(?!\S)")


def unsupported(unit: str, props: Mapping[str, str], argv: Sequence[str]) -> Optional[str]:
    """Why ``unit`` cannot be adopted, in one sentence; None when its kind is one that ddtune knows."""
    if props.get("LoadState") != "loaded" or not props.get("FragmentPath"):
        return f"{unit} has no unit file on this host"
    if props.get("Type") not in _TYPES:
        return f"{unit} has Type={props.get('Type')}: only a service whose main process is the engine can be adopted"
    if props.get("DynamicUser") == "yes":
        return f"{unit} has DynamicUser=yes: no group can be given its releases to read; set User= to a fixed user"
    for name in ("RootDirectory", "RootImage"):
        if props.get(name):
            return f"{unit} has {name}={props[name]}: ddtune's programs are not in there"
    program = os.path.basename(argv[0])
    if program in _CONTAINERS:
        return f"{unit} runs {program}: services in containers are not supported"
    if program in _SHELLS:
        return f"{unit} runs a shell ({' '.join(argv[:2])}): let ExecStart= be the engine's own command line"
    if program_length(argv) is None:
        return f"the main process of {unit} is not SGLang: {redact_text(' '.join(argv))[:300]}"
    return None


def differs(show: str, argv: Sequence[str], env: Mapping[str, str]) -> Optional[tuple[str, str]]:
    """The command on disk and the running one, when they are not the same; None when they are.

    systemd prints the words of a command joined by spaces and before variables are filled in, so that is how they are
    compared; for a script the kernel puts its interpreter in front.
    """
    on_disk = drop_in.exec_argv(show)
    if on_disk is None:
        return ("(no command, or more than one)", redact_text(" ".join(argv)))
    wanted = _normal(_VARIABLE.sub(lambda match: _value(match, env), on_disk))
    if any(_normal(" ".join(argv[skipped:])) == wanted for skipped in range(1 if _is_binary(wanted) else 3)):
        return None
    return (redact_text(on_disk), redact_text(" ".join(argv)))


def absolute(argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """``argv`` with its program found as the process itself found it."""
    program = argv[0]
    if not program.startswith("/"):
        program = shutil.which(program, path=env.get("PATH", os.defpath)) or program
    return [program, *argv[1:]]


def _value(match: re.Match[str], env: Mapping[str, str]) -> str:
    if match.group(0) == "$$":
        return "$"
    return env.get(match.group(1) or match.group(2), "")


def _normal(command: str) -> str:
    return " ".join(command.split())


def _is_binary(command: str) -> bool:
    """Whether the program is anything but a script, as far as can be read."""
    try:
        with open(command.partition(" ")[0], "rb") as file:
            return file.read(2) != b"#!"
    except OSError:
        return True
