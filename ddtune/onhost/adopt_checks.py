"""Whether a service can be put under ddtune, judged from what systemd and /proc say of it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from typing import Optional

from . import drop_in, env_file
from .api import flag_value
from .build_probe import program_length
from .redact import redact_text

PROPERTIES = (
    "LoadState", "ActiveState", "FragmentPath", "DropInPaths", "ExecStart", "MainPID", "InvocationID", "User", "Group",
    "Type", "DynamicUser", "RootDirectory", "RootImage", "KillMode", "Restart", "TimeoutStopUSec", "StartLimitBurst",
    "StartLimitIntervalUSec", "WorkingDirectory",
)  # fmt: skip

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")
CONTAINERS = ("docker", "podman", "nerdctl", "ctr", "apptainer", "singularity", "systemd-nspawn")
_TYPES = ("simple", "exec", "notify", "notify-reload", "idle")
_ON_LOOPBACK = ("0.0.0.0", "127.0.0.1", "localhost", "::", "::1")
_NOT_ASKED = {
    "--ssl-certfile": "its API speaks TLS, and ddtune asks over the host's loopback without it",
    "--is-embedding": "it generates nothing that could be judged",
}
_VARIABLE = re.compile(r"\$\$|\$\{(\w+)\}|(?<!\S)\$(\w+)(?!\S)")
_PATH = re.compile(r"\{ path=(\S+) ;")


def unsupported(
    unit: str, props: Mapping[str, str], argv: Sequence[str], engine_below: Optional[int] = None
) -> Optional[str]:
    """Why ``unit`` cannot be adopted, in one sentence; None when its kind is one that ddtune knows.

    ``argv`` is its main process's; ``engine_below`` a process below that one which is the engine.
    """
    if props.get("LoadState") != "loaded" or not props.get("FragmentPath"):
        return f"{unit} has no unit file on this host"
    on_disk = drop_in.exec_argv(props.get("ExecStart", ""))
    words = _command(on_disk or "")
    for program in (os.path.basename(argv[0]), os.path.basename(words[0]) if words else ""):
        if program in CONTAINERS:
            return f"{unit} runs {program}: services in containers are not supported"
    if words and os.path.basename(words[0]) in _SHELLS and _inline(words):
        return (
            f"{unit} runs a shell ({' '.join(words[:2])}): let ExecStart= be the engine's own command line, "
            "or a script that ends in exec"
        )
    if props.get("Type") not in _TYPES:
        return f"{unit} has Type={props.get('Type')}: only a service whose main process is the engine can be adopted"
    if props.get("DynamicUser") == "yes":
        return f"{unit} has DynamicUser=yes: no group can be given its releases to read; set User= to a fixed user"
    for name in ("RootDirectory", "RootImage"):
        if props.get(name):
            return f"{unit} has {name}={props[name]}: ddtune's programs are not in there"
    if program_length(argv) is not None:
        why = not_asked(argv)
        return f"{unit} {why}" if why else None
    what = redact_text(" ".join(argv))[:200]
    if engine_below is not None:
        return (
            f"{unit} has a wrapper ({what}) that starts the engine as a child (process {engine_below}) and stays: "
            "let it end in exec, so that the engine is the main process"
        )
    return f"the main process of {unit} is not SGLang: {what}"


def not_asked(argv: Sequence[str]) -> Optional[str]:
    """Why an engine with this command line could not be asked, or not be judged, on this host's loopback alone."""
    host = flag_value(argv, "--host")
    if host is not None and host not in _ON_LOOPBACK:
        others = ", ".join(one for one in _ON_LOOPBACK if one != "localhost")
        return f"listens on {host} only, and ddtune asks it on this host's loopback: let its --host be one of {others}"
    nodes = flag_value(argv, "--nnodes") or "1"
    if nodes.isdigit() and int(nodes) > 1:
        return f"is one of {nodes} nodes of one engine (--nnodes): a restart of this one alone would break the others"
    half = flag_value(argv, "--disaggregation-mode")
    if half in ("prefill", "decode"):
        return f"is the {half} half of an engine (--disaggregation-mode): it answers nobody without the other half"
    flags = {word.partition("=")[0] for word in argv}
    for flag, why in _NOT_ASKED.items():
        if flag in flags:
            return f"has {flag}: {why}"
    return None


def same_command(show: str, argv: Sequence[str], env: Mapping[str, str]) -> Optional[bool]:
    """Whether the unit's own command line is what runs; None where it names a wrapper, so that text cannot tell.

    ``show`` is systemd's ExecStart, ``env`` what systemd gives a start. systemd prints the words of a command joined
    by spaces and before variables are filled in, so that is how they are compared; for a script the kernel puts its
    interpreter in front.
    """
    on_disk = drop_in.exec_argv(show)
    if on_disk is None:
        return False
    wanted = _normal(filled_in(on_disk, env))
    running = _normal(" ".join(argv))
    if any(_normal(" ".join(argv[skipped:])) == wanted for skipped in range(1 if _is_binary(wanted) else 3)):
        return True
    if wanted.endswith(f" {running}"):
        return None
    words = _command(wanted)
    own = program_length(words) is not None or (bool(words) and words[0] in argv[1:3])
    return False if own else None


def both(show: str, argv: Sequence[str]) -> tuple[str, str]:
    """The command on disk and the running one, to be shown side by side."""
    on_disk = drop_in.exec_argv(show)
    shown = "(no command, or more than one)" if on_disk is None else redact_text(on_disk)
    return shown, redact_text(" ".join(argv))


def filled_in(command: str, env: Mapping[str, str]) -> str:
    """``command`` as systemd prints it with its variables filled in as systemd does."""

    def value(match: re.Match[str]) -> str:
        if match.group(2):
            return " ".join(env_file.split(env.get(match.group(2), "")))
        return env.get(match.group(1), "") if match.group(1) else "$"

    return _VARIABLE.sub(value, command)


def wrapper_files(show: str, argv: Sequence[str]) -> list[str]:
    """The files on the unit's command line that are not on the running one: the wrapper, its settings."""
    named = [*_PATH.findall(show), *(drop_in.exec_argv(show) or "").split()]
    return [word for word in named if word.startswith("/") and word not in argv and os.path.isfile(word)]


def absolute(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> list[str]:
    """``argv`` with its program found as the process itself found it."""
    program = argv[0]
    if "/" in program:
        program = os.path.join(cwd, program)
    else:
        program = shutil.which(program, path=env.get("PATH", os.defpath)) or program
    return [program, *argv[1:]]


def _command(text: str) -> list[str]:
    """The words of a command from its program on, without an ``env`` before it."""
    words = text.split()
    if words and os.path.basename(words[0]) == "env":
        words = words[1:]
        while words and (words[0].startswith("-") or "=" in words[0]):
            words = words[1:]
    return words


def _inline(words: Sequence[str]) -> bool:
    """Whether a shell is given its script as an argument."""
    for word in words[1:]:
        if not word.startswith("-"):
            return False
        if not word.startswith("--") and "c" in word:
            return True
    return False


def _normal(command: str) -> str:
    return " ".join(command.split())


def _is_binary(command: str) -> bool:
    """Whether the program is anything but a script, as far as can be read."""
    try:
        with open(command.partition(" ")[0], "rb") as file:
            return file.read(2) != b"#!"
    except OSError:
        return True
