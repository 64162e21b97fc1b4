"""The one file that puts a service under ddtune."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any, Optional

from .paths import Install, Paths, UnitPaths

STOP_TIMEOUT_S = 45.0
PROPERTIES = ("ExecStart", "ExecStartPre", "ExecStopPost", "KillMode", "DropInPaths")
"""What :func:`drift` wants to know of a unit."""

_OURS = ("ExecStart", "ExecStartPre", "ExecStopPost", "KillMode", "TimeoutStopSec", "OnFailure")
_AROUND = {"ExecStartPre": "choose", "ExecStopPost": "ended"}
_LEAVES_RANKS = ("process", "none")
_PLAIN = re.compile(r"[A-Za-z0-9/:_.,@+=-]+")


def quote(word: str) -> str:
    """``word`` as one literal word of a command in a unit file: no specifier, no variable, no splitting."""
    literal = word.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$").replace('"', '\\"')
    return literal if _PLAIN.fullmatch(literal.replace("%%", "")) else f'"{literal}"'


def command(install: Install, *words: str) -> str:
    """A command of the installed programs, as a unit file writes it."""
    return " ".join(quote(word) for word in (install.python, "-I", install.pyz, *words))


def stop_timeout_s(site: Mapping[str, Any]) -> float:
    """The limit of a stop that a unit was adopted with."""
    return float(site.get("stop_timeout_s") or STOP_TIMEOUT_S)


def render(install: Install, unit: str, stop_timeout_s: float) -> str:
    """The drop-in of ``unit``."""
    return f"""\
# ddtune picks what this service runs. To run it without ddtune, as its own unit file says: remove this file, then
#   systemctl daemon-reload && systemctl restart {unit}
# Back to the last release that passed its gate, with neither ddtune's client nor a network:
#   {Paths(install.root).rollback}

[Unit]
OnFailure=ddtune-ended@{unit.replace("%", "%%")}.service

[Service]
ExecStartPre=-+{command(install, "choose", unit)}
ExecStart=
ExecStart={command(install, "become", unit)}
ExecStopPost=-+{command(install, "ended", unit)}
KillMode=mixed
TimeoutStopSec={stop_timeout_s:g}
"""


def render_ended(install: Install) -> str:
    """``ddtune-ended@.service``, which looks at an end that systemd calls a failure."""
    return f"""\
[Unit]
Description=ddtune: how %i ended

[Service]
Type=oneshot
ExecStart={command(install, "ended-service")} %i
"""


def exec_argv(show: str) -> str | None:
    """The command in what ``systemctl show -p ExecStart`` says; None when there is none or more than one."""
    found = _commands(show)
    return found[0] if len(found) == 1 else None


def _commands(show: str) -> list[str]:
    return re.findall(r"argv\[\]=(.*?) ; ignore_errors=", show, re.DOTALL)


def later(paths: UnitPaths, props: Mapping[str, str]) -> dict[str, list[str]]:
    """Drop-ins that systemd reads after ours, with those of our settings that each one has too."""
    loaded = props.get("DropInPaths", "").split()
    behind = loaded[loaded.index(paths.drop_in) + 1 :] if paths.drop_in in loaded else []
    found = {}
    for path in behind:
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            names = {line.partition("=")[0].strip() for line in file if "=" in line}
            found[path] = [name for name in _OURS if name in names]
    return found


def runs_through(install: Install, unit: str, show: str) -> bool:
    """Whether ``systemctl show -p ExecStart`` says that the unit starts by becoming what ddtune chose."""
    return exec_argv(show) == " ".join((install.python, "-I", install.pyz, "become", unit))


def drift(install: Install, paths: UnitPaths, props: Mapping[str, str], stop_timeout_s: float) -> Optional[str]:
    """What somebody has changed about how the unit starts, in one sentence; None when all is as adopted.

    ``props`` are the ``PROPERTIES``.
    """
    try:
        with open(paths.drop_in, encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError):
        return f"the drop-in {paths.drop_in} is gone or cannot be read"
    if text != render(install, paths.unit, stop_timeout_s):
        return f"the drop-in {paths.drop_in} was changed since ddtune wrote it"
    if paths.drop_in not in props.get("DropInPaths", "").split():
        return f"systemd has not loaded the drop-in {paths.drop_in}"
    if not runs_through(install, paths.unit, props.get("ExecStart", "")):
        return f"{paths.unit} starts something else than ddtune's launcher: {exec_argv(props.get('ExecStart', ''))}"
    return _undone(install, paths, props)


def _undone(install: Install, paths: UnitPaths, props: Mapping[str, str]) -> Optional[str]:
    """What a file that is read after ours has taken away around the start; a trial would run with it missing."""
    for name, verb in _AROUND.items():
        if " ".join((install.python, "-I", install.pyz, verb, paths.unit)) not in _commands(props.get(name, "")):
            return f"{paths.unit} no longer has ddtune's {name}= ({verb}){_by(paths, props, name)}"
    if props.get("KillMode") in _LEAVES_RANKS:
        mode = props["KillMode"]
        return f"{paths.unit} has KillMode={mode}, which leaves ranks behind a stop{_by(paths, props, 'KillMode')}"
    return None


def _by(paths: UnitPaths, props: Mapping[str, str], name: str) -> str:
    found = [path for path, names in later(paths, props).items() if name in names]
    return f": see {found[-1]}" if found else ""
