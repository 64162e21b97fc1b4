"""A service that a wrapper starts and then becomes: what the wrapper adds to what systemd gives the process.

ddtune's launcher takes the wrapper's place, so whatever the wrapper did besides naming the command must be kept (its
environment) or be known to be nothing (limits, umask, CPUs, memory policy).
"""

from __future__ import annotations

import glob
import os
import pwd
from collections.abc import Mapping
from typing import Optional

from . import env_file
from .unit import Systemctl, SystemctlError, parse_show

PROPERTIES = (
    "LimitFSIZE", "LimitDATA", "LimitSTACK", "LimitCORE", "LimitNPROC", "LimitNOFILE", "LimitMEMLOCK", "LimitAS",
    "LimitFSIZESoft", "LimitDATASoft", "LimitSTACKSoft", "LimitCORESoft", "LimitNPROCSoft", "LimitNOFILESoft",
    "LimitMEMLOCKSoft", "LimitASSoft", "UMask", "CPUAffinity", "NUMAPolicy",
)  # fmt: skip

_LIMITS = {
    "Max file size": "LimitFSIZE", "Max data size": "LimitDATA", "Max stack size": "LimitSTACK",
    "Max core file size": "LimitCORE", "Max processes": "LimitNPROC", "Max open files": "LimitNOFILE",
    "Max locked memory": "LimitMEMLOCK", "Max address space": "LimitAS",
}  # fmt: skip

# Made anew at each start, or by a shell for itself.
_PER_START = frozenset(
    ("INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "SYSTEMD_EXEC_PID", "MANAGERPID", "WATCHDOG_PID",
     "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "CREDENTIALS_DIRECTORY", "RUNTIME_DIRECTORY",
     "STATE_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY", "CONFIGURATION_DIRECTORY", "MEMORY_PRESSURE_WATCH",
     "MEMORY_PRESSURE_WRITE", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE", "TERM")
)  # fmt: skip


class UnreadableError(Exception):
    """A file that the unit reads its environment from cannot be read; the text names it."""


def given(systemctl: Systemctl, unit: str, user: str) -> dict[str, str]:
    """The environment that systemd gives a start of ``unit``. Raises UnreadableError and SystemctlError."""
    shown = systemctl.run("--no-pager", "show", "-p", "Environment,EnvironmentFiles", unit)
    env: dict[str, str] = {}
    try:
        env.update(parse_show(systemctl.run("--no-pager", "show-environment")))
    except SystemctlError:
        env["PATH"] = os.defpath
    env.update(_of_user(user))
    env.update(env_file.shown(parse_show(shown).get("Environment", "")))
    for pattern, optional in files(shown):
        for path in sorted(glob.glob(pattern)) or ([] if optional else [pattern]):
            env.update(_of_file(path, optional))
    return env


def files(shown: str) -> list[tuple[str, bool]]:
    """Patterns of the ``EnvironmentFiles=`` lines of ``systemctl show``, and whether each may be missing."""
    found = []
    for line in shown.splitlines():
        key, _, value = line.partition("=")
        if key == "EnvironmentFiles" and value:
            path, _, rest = value.rpartition(" (ignore_errors=")
            found.append((path, rest.startswith("yes")))
    return found


def carried(env: Mapping[str, str], sources: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What a wrapper has set beyond ``sources``, and what it has taken away."""
    changed = {
        name: value for name, value in env.items() if name not in _PER_START and sources.get(name) != value and name
    }
    return changed, sorted(name for name in sources if name not in env and name not in _PER_START)


def other_acts(pid: int, props: Mapping[str, str]) -> list[str]:
    """Settings of the process ``pid`` that its unit does not give it, each as the line that the unit would need."""
    limits, highest = _limits(pid), _limits(1)
    off = sorted({name.removesuffix("Soft") for name in limits if _differs(name, limits, highest, props)})
    found = [f"{name}={limits[f'{name}Soft']}:{limits[name]}" for name in off]
    status = _status(pid)
    umask = status.get("Umask", "").rjust(4, "0")
    if "Umask" in status and (props.get("UMask") or umask) != umask:
        found.append(f"UMask={umask}")
    cpus = status.get("Cpus_allowed_list")
    if cpus and props.get("CPUAffinity") == "" and cpus != _status(1).get("Cpus_allowed_list", cpus):
        found.append(f"CPUAffinity={cpus}")
    policy = _memory_policy(pid)
    if policy and policy != "default" and props.get("NUMAPolicy") in ("n/a", "default"):
        kind, _, nodes = policy.partition(":")
        found.append(f"NUMAPolicy={kind.split('=')[0]}" + (f" NUMAMask={nodes}" if nodes else ""))
    return found


def newest_change(paths: list[str]) -> tuple[float, str]:
    """When the latest of these files was changed, and which it was; 0 when there are none."""
    found = [(os.stat(path).st_ctime, path) for path in paths if os.path.exists(path)]
    return max(found, default=(0.0, ""))


def _of_file(path: str, optional: bool) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return env_file.parse(file.read())
    except OSError as error:
        if optional:
            return {}
        raise UnreadableError(f"{path}: {error.strerror}") from None


def _of_user(user: str) -> dict[str, str]:
    if not user:
        return {}
    try:
        entry = pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
    except KeyError:
        return {}
    return {"HOME": entry.pw_dir, "LOGNAME": entry.pw_name, "USER": entry.pw_name, "SHELL": entry.pw_shell}


def _limits(pid: int) -> dict[str, str]:
    found = {}
    for line in _read(f"/proc/{pid}/limits").splitlines():
        name = _LIMITS.get(line[:26].strip())
        words = line[26:].split()
        if name and len(words) >= 2:
            soft, hard = ("infinity" if word == "unlimited" else word for word in words[:2])
            found[f"{name}Soft"], found[name] = soft, hard
    return found


def _differs(name: str, limits: Mapping[str, str], highest: Mapping[str, str], props: Mapping[str, str]) -> bool:
    """Whether a limit is neither what the unit says nor the most that systemd itself may give."""
    said = props.get(name)
    return bool(said) and limits[name] not in (said, highest.get(name.removesuffix("Soft")))


def _status(pid: int) -> dict[str, str]:
    pairs = (line.partition(":") for line in _read(f"/proc/{pid}/status").splitlines())
    return {key: value.strip() for key, _, value in pairs}


def _memory_policy(pid: int) -> Optional[str]:
    words = _read(f"/proc/{pid}/numa_maps").partition("\n")[0].split()
    return words[1] if len(words) > 1 else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
