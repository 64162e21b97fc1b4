"""The one file that puts a service under ddtune."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Optional

from .paths import Install, Paths, UnitPaths

STOP_TIMEOUT_S = 45.0
_PLAIN = re.compile(r"[A-Za-z0-9/:_.,@+=-]+")


def quote(word: str) -> str:
    """``word`` as one literal word of a command in a unit file: no specifier, no variable, no splitting."""
    literal = word.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$").replace('"', '\\"')
    return literal if _PLAIN.fullmatch(literal.replace("%%", "")) else f'"{literal}"'


def command(install: Install, *words: str) -> str:
    """A command of the installed programs, as a unit file writes it."""
    return " ".join(quote(word) for word in (install.python, "-I", install.pyz, *words))


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
    found = re.findall(r"argv\[\]=(.*?) ; ignore_errors=", show, re.DOTALL)
    return found[0] if len(found) == 1 else None


def runs_through(install: Install, unit: str, show: str) -> bool:
    """Whether ``systemctl show -p ExecStart`` says that the unit starts by becoming what ddtune chose."""
    return exec_argv(show) == " ".join((install.python, "-I", install.pyz, "become", unit))


def drift(install: Install, paths: UnitPaths, props: Mapping[str, str], stop_timeout_s: float) -> Optional[str]:
    """What somebody has changed about how the unit starts, in one sentence; None when all is as adopted.

    ``props`` has ExecStart and DropInPaths.
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
    return None
