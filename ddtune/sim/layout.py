"""The embedded host's folder: users' homes, stand-in programs, the service's unit file."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ddtune.sim import bare
from ddtune.sim.real import RealEngine
from ddtune.sim.settings import Settings

UNIT = "sglang-k26.service"
REAL_UNIT = "sglang.service"
USER = "ops"
_FOLDERS = (
    "client",
    "etc/ssh",
    "etc/systemd/system",
    f"home/{USER}",
    "root",
    "run/sim",
    "run/systemd/system",
    "tmp",
    "usr/bin",
    "var/lib",
    "var/log",
)
_ARGV = (
    *("-m", "sglang.launch_server", "--model-path", "/models/Kimi-K2.6", "--trust-remote-code", "--tp-size", "8"),
    *("--host", "127.0.0.1", "--port", "{port}", "--enable-metrics", "--attention-backend", "triton"),
    *("--page-size", "1", "--speculative-algorithm", "DDTREE"),
    *("--speculative-draft-model-path", "/models/Kimi-K2.6-DFlash", "--speculative-ddtree-budget", "8"),
    *("--speculative-draft-window-size", "2048", "--enable-nccl-nvls", "--max-running-requests", "128"),
    *("--mem-fraction-static", "0.85"),
)


def unit_of(settings: Settings) -> str:
    """The name of the service."""
    return UNIT if settings.real is None else REAL_UNIT


def supervisor_socket(root: Path) -> Path:
    return root / "run/sim/supervisor.sock"


def journal_socket(root: Path) -> Path:
    return root / "run/sim/journal.sock"


def journal_file(root: Path) -> Path:
    return root / "var/log/journal.jsonl"


def warm_drop_in(root: Path) -> Path:
    """What lets the very first start skip its phases."""
    return root / f"run/systemd/system/{UNIT}.d/warm.conf"


def path_of(root: Path) -> str:
    """PATH on the host: its stand-ins before the machine's own programs."""
    return f"{root}/usr/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def service_env(root: Path) -> dict[str, str]:
    """What systemd gives every program, less what is a unit's own."""
    return {"PATH": path_of(root), "LANG": "C.UTF-8", "TMPDIR": f"{root}/tmp", "DDTUNE_SIM_ROOT": str(root)}


def session_env(root: Path) -> dict[str, str]:
    """What sshd gives a command."""
    home = str(root / "home" / USER)
    return {**service_env(root), "HOME": home, "USER": USER, "LOGNAME": USER, "SHELL": "/bin/sh"}


def make_bare(root: Path) -> None:
    """The folder with its programs and without a service."""
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    _stand_ins(root)


def make(root: Path, settings: Settings, api_port: int) -> None:
    """Lays the folder out."""
    make_bare(root)
    units = root / "etc/systemd/system"
    if settings.real is not None:
        (units / REAL_UNIT).write_text(real_unit_file(root, settings.real, api_port))
        return
    (units / UNIT).write_text(unit_file(root, settings, api_port))
    drop_in = warm_drop_in(root)
    drop_in.parent.mkdir()
    drop_in.write_text("[Service]\nEnvironment=DDTUNE_SIM_WARM=1\n")


def unit_file(root: Path, settings: Settings, api_port: int) -> str:
    """The service as its operators wrote it."""
    env = {
        "PYTHONPATH": f"{bare.PACKAGE_PARENT}/ddtune/sim/standin:{bare.PACKAGE_PARENT}",
        "SGLANG_DDTREE_MAX_TOPK": "4",
        "DDTUNE_SIM_SPEED": f"{settings.speed:g}",
        "DDTUNE_SIM_TRAFFIC": f"{settings.traffic:g}",
        "DDTUNE_SIM_STATE": f"{root}/run/sim/gpus.json",
        **dict(settings.engine_env),
    }
    argv = [sys.executable, *(word.format(port=api_port) for word in _ARGV)]
    return _unit_file(root, "SGLang serving Kimi K2.6 (simulated)", argv, env)


def real_unit_file(root: Path, engine: RealEngine, api_port: int) -> str:
    """The same for a real engine. The stand-ins stay out of its PATH: it starts programs of its own."""
    return _unit_file(root, "SGLang", engine.on_port(api_port), dict(engine.environment))


def _unit_file(root: Path, description: str, argv: Sequence[str], env: Mapping[str, str]) -> str:
    return (
        f"[Unit]\nDescription={description}\n"
        "StartLimitIntervalSec=60\nStartLimitBurst=10\n\n"
        "[Service]\nType=simple\n"
        + "".join(f"Environment={quoted(f'{name}={value}')}\n" for name, value in env.items())
        + f"WorkingDirectory={root}/root\n"
        + f"ExecStart={' '.join(quoted(word.replace('$', '$$')) for word in argv)}\n"
        + "Restart=always\nRestartSec=2\nTimeoutStopSec=90\n\n[Install]\nWantedBy=multi-user.target\n"
    )


def quoted(word: str) -> str:
    """A word as a unit file takes it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if any(char.isspace() or char in "\"'\\" for char in word) else escaped


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


def _assignments(env: Mapping[str, str]) -> str:
    return " ".join(shlex.quote(f"{name}={value}") for name, value in env.items())


def _stand_ins(root: Path) -> None:
    for name in ("systemctl", "systemd-run", "journalctl"):
        client = shlex.join(bare.command("bin.client", str(supervisor_socket(root)), name))
        _program(root / "usr/bin" / name, f'exec {client} "$@"\n')
    # As sudo does: no question asked, an environment of its own, a command that is there.
    env = {**service_env(root), "HOME": f"{root}/root", "USER": "root", "LOGNAME": "root", "SUDO_USER": USER}
    env |= {"SHELL": "/bin/sh", "SUDO_UID": str(os.getuid())}
    _program(
        root / "usr/bin/sudo",
        'while [ "${1#-}" != "$1" ]; do shift; done\n'
        'command -v -- "$1" >/dev/null || { echo "sudo: $1: command not found" >&2; exit 1; }\n'
        f'exec env -i {_assignments(env)} "$@"\n',
    )
