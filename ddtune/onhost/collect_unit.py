"""The unit and its processes: systemd's properties, the main process's argv, the schedulers that live."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Optional

from . import clock
from .api import flag_value
from .build_probe import program_length
from .inspect_process import SCHEDULER, schedulers, split_nul
from .paths import CGROUPS, Paths
from .redact import redact_argv
from .store import read_json
from .unit import Systemctl, SystemctlError, parse_show

PROPERTIES = (
    "ActiveState",
    "SubState",
    "Result",
    "MainPID",
    "InvocationID",
    "NRestarts",
    "ExecMainStatus",
    "ExecMainCode",
    "ExecMainStartTimestampMonotonic",
    "ControlGroup",
    "LoadState",
    "NeedDaemonReload",
    "Job",
)


def find_units(systemctl: Systemctl, paths: Paths) -> list[str]:
    """Running units whose main process runs sglang, and adopted ones, sorted. Raises SystemctlError."""
    listed = systemctl.run("list-units", "--type=service", "--state=running", "--plain", "--no-legend", "--no-pager")
    names = [line.split()[0] for line in listed.splitlines() if line.split()]
    found = set(paths.adopted())
    if names:
        shown = systemctl.run("--no-pager", "show", "-p", "Id,MainPID", *names)
        for block in shown.split("\n\n"):
            props = parse_show(block)
            if is_engine(read_argv(_number(props.get("MainPID")))):
                found.add(props["Id"])
    return sorted(found)


def is_engine(argv: Sequence[str]) -> bool:
    """Whether a command line is SGLang's server: ``python -m sglang.launch_server`` or ``sglang serve``."""
    return program_length(argv) is not None


class Unit:
    """Lines of kind ``unit`` for one unit."""

    def __init__(self, systemctl: Systemctl, paths: Paths, name: str) -> None:
        self.name = name
        self._systemctl = systemctl
        self._ended = paths.unit(name).ended
        self.argv: tuple[str, ...] = ()
        """The whole argv of the main process at the last reading; it may hold a key and stays on the host."""
        self.invocation = ""
        self._known: tuple[int, list[int]] = (0, [])

    def line(self) -> Optional[dict[str, Any]]:
        """None when systemd does not answer."""
        try:
            props = self._systemctl.show(self.name, *PROPERTIES)
        except SystemctlError:
            return None
        pid = _number(props.get("MainPID"))
        self.argv = read_argv(pid)
        self.invocation = props.get("InvocationID", "")
        engine = is_engine(self.argv)
        expected = expected_schedulers(self.argv) if engine else None
        return {
            "t": "unit",
            "at": clock.wall(),
            "name": self.name,
            "props": props,
            "argv": redact_argv(self.argv),
            "schedulers": None if expected is None else self._alive(pid, props.get("ControlGroup", ""), expected),
            "schedulers_expected": expected,
            "ended": read_json(self._ended),
        }

    def _alive(self, pid: int, cgroup: str, expected: int) -> Optional[int]:
        """Scheduler processes that are neither gone nor zombies.

        The unit's cgroup is quicker to read than all of /proc, which is therefore read only until all are found.
        """
        members = _members(cgroup) if cgroup else []
        if pid in members:
            return sum(1 for member in members if _is_scheduler(member))
        of, known = self._known
        if of == pid and len(known) >= expected and all(map(_is_scheduler, known)):
            return len(known)
        try:
            self._known = (pid, [found["pid"] for found in schedulers(pid) if found["state"] not in "ZX"])
        except OSError:
            return None
        return len(self._known[1])


def expected_schedulers(argv: Sequence[str]) -> int:
    """How many scheduler processes that command line makes on one node."""
    tensor = _flag(argv, "--tp-size", "--tensor-parallel-size", "--tp")
    pipeline = _flag(argv, "--pp-size", "--pipeline-parallel-size", "--pp")
    data = _flag(argv, "--dp-size", "--data-parallel-size", "--dp")
    nodes = _flag(argv, "--nnodes")
    return max(1, tensor * pipeline * (1 if "--enable-dp-attention" in argv else data) // nodes)


def read_argv(pid: int) -> tuple[str, ...]:
    """The command line of ``pid``; empty when there is no such process or it may not be read."""
    if pid <= 0:
        return ()
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return tuple(split_nul(file.read()))
    except OSError:
        return ()


def _members(cgroup: str) -> list[int]:
    found = (f"{base}{cgroup}/cgroup.procs" for base in CGROUPS)
    path = next((path for path in found if os.path.exists(path)), None)
    if path is None:
        return []
    try:
        with open(path, encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return []


def _is_scheduler(pid: int) -> bool:
    # A zombie has no command line left.
    return any(word.startswith(SCHEDULER) for word in read_argv(pid)[:1])


def _flag(argv: Sequence[str], *names: str) -> int:
    values = [value for name in names if (value := flag_value(argv, name))]
    return max(1, _number(values[-1])) if values else 1


def _number(text: Optional[str]) -> int:
    return int(text) if text and text.isdecimal() else 0
