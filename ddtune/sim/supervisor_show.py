"""A unit's properties as ``systemctl show`` prints them, in its order."""

from __future__ import annotations

import time
from collections.abc import Callable

from ddtune.sim.supervisor_service import Service
from ddtune.sim.unitfile import Command, Config, format_span

_CODES = {"exited": 1, "killed": 2, "dumped": 3}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if any(char.isspace() or char in "\"'\\" for char in text) or not text else text


def _stamp(at: float) -> str:
    return time.strftime("[%a %Y-%m-%d %H:%M:%S %Z]", time.localtime(at)) if at else "[n/a]"


def _exec(command: Command, service: Service | None) -> str:
    began = _stamp(service.exec_started_at if service else 0)
    pid, code, status = 0, "(null)", "0/0"
    if service is not None:
        pid = service.exec_pid
        if service.ended is not None:
            code, status = service.ended.how, str(service.ended.status)
    ignored = "yes" if command.ignore else "no"
    return (
        f"{{ path={command.argv[0]} ; argv[]={' '.join(command.argv)} ; ignore_errors={ignored} ; "
        f"start_time={began} ; stop_time=[n/a] ; pid={pid} ; code={code} ; status={status} }}"
    )


def _state(config: Config) -> str:
    if config.transient:
        return "transient"
    return "enabled" if config.wanted else "static"


Row = Callable[[Service, bool], str | list[str]]

PROPERTIES: dict[str, Row] = {
    "Type": lambda s, _: s.config.kind,
    "Restart": lambda s, _: s.config.restart,
    "NotifyAccess": lambda *_: "none",
    "RestartUSec": lambda s, _: format_span(s.config.restart_s),
    "TimeoutStartUSec": lambda s, _: format_span(s.config.start_timeout_s),
    "TimeoutStopUSec": lambda s, _: format_span(s.config.stop_timeout_s),
    "MainPID": lambda s, _: str(s.main_pid),
    "StatusErrno": lambda *_: "0",
    "Result": lambda s, _: s.result,
    "NRestarts": lambda s, _: str(s.restarts),
    "ExecMainStartTimestampMonotonic": lambda s, _: str(s.exec_start_us),
    "ExecMainExitTimestampMonotonic": lambda s, _: str(s.exec_exit_us),
    "ExecMainPID": lambda s, _: str(s.exec_pid),
    "ExecMainCode": lambda s, _: str(_CODES[s.ended.how] if s.ended else 0),
    "ExecMainStatus": lambda s, _: str(s.ended.status if s.ended else 0),
    "ExecStartPre": lambda s, _: [_exec(command, None) for command in s.config.start_pre],
    "ExecStart": lambda s, _: [_exec(command, s) for command in s.config.start],
    "ExecStopPost": lambda s, _: [_exec(command, None) for command in s.config.stop_post],
    # None here, and a real unit of this name on the same machine must not be taken for it.
    "ControlGroup": lambda *_: "",
    "Delegate": lambda *_: "no",
    "MemoryCurrent": lambda *_: "[not set]",
    "Environment": lambda s, _: " ".join(_quoted(f"{key}={value}") for key, value in s.config.environment),
    "WorkingDirectory": lambda s, _: s.config.cwd,
    "User": lambda s, _: s.config.user,
    "Group": lambda s, _: s.config.group,
    "OOMPolicy": lambda *_: "stop",
    "KillMode": lambda s, _: s.config.kill_mode,
    "Id": lambda s, _: s.config.name,
    "Names": lambda s, _: s.config.name,
    "OnFailure": lambda s, _: " ".join(s.config.on_failure),
    "Description": lambda s, _: s.config.description or s.config.name,
    "LoadState": lambda s, _: "loaded" if s.config.fragment or s.config.transient else "not-found",
    "ActiveState": lambda s, _: s.active,
    "SubState": lambda s, _: s.sub,
    "FragmentPath": lambda s, _: str(s.config.fragment or ""),
    "DropInPaths": lambda s, _: " ".join(str(path) for path in s.config.drop_ins),
    "UnitFileState": lambda s, _: _state(s.config) if s.config.fragment or s.config.transient else "",
    "Job": lambda s, _: str(s.job.number) if s.job else "",
    "NeedDaemonReload": lambda _, changed: "yes" if changed else "no",
    "StartLimitIntervalUSec": lambda s, _: format_span(s.config.interval_s),
    "StartLimitBurst": lambda s, _: str(s.config.burst),
    "InvocationID": lambda s, _: s.invocation,
}


def show(service: Service, changed: bool, wanted: list[str], *, value_only: bool) -> str:
    """The wanted properties, all where none is named; unknown ones are passed over, as systemctl does."""
    lines: list[str] = []
    for name, row in PROPERTIES.items():
        if wanted and name not in wanted:
            continue
        got = row(service, changed)
        values = [got] if isinstance(got, str) else got
        lines += values if value_only else [f"{name}={value}" for value in values]
    return "".join(f"{line}\n" for line in lines)
