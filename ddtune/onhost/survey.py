"""Looks at a host as whoever is logged in sees it, and says so in one JSON object. Needs no root, changes nothing.

Sent along by the operator's side, for hosts that may have nothing of ddtune yet. It reads one JSON object:
``{"unit", "root", "api_port", "api_key_file", "systemctl", "probe"}``.
"""

from __future__ import annotations

import grp
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Optional

from . import (
    adopt_checks,
    api,
    build_probe,
    clock,
    drop_in,
    exec_lint,
    journal_access,
    likeness,
    pins,
    programs,
    store,
    wrapper,
)
from .as_user import RunError
from .collect_unit import read_argv
from .inspect_process import parents
from .paths import Install, Paths
from .redact import redact_argv, redact_text
from .survey_units import look
from .unit import Systemctl, SystemctlError

PROTO = 1
_ROOM = ("/var/lib", "/run", "/dev/shm")
_PROPERTIES = (
    *adopt_checks.PROPERTIES, "NeedDaemonReload", "Result", "SubState", "NRestarts", "Delegate", "EnvironmentFiles",
    "Id", "Transient", "StandardOutput", "LogNamespace",
)  # fmt: skip
_API_S = 3.0


def main(_arguments: list[str]) -> int:
    """Answers the object on standard input. 0 whenever an answer was given."""
    asked = json.loads(sys.stdin.buffer.read() or b"{}")
    print(json.dumps({"proto": PROTO, **survey(asked)}))
    return 0


def survey(asked: Mapping[str, Any]) -> dict[str, Any]:
    """All that can be seen of the host and of the service that is meant."""
    root = str(asked.get("root") or "")
    paths = Paths(root)
    systemctl = Systemctl(Install(root=root, systemctl=str(asked.get("systemctl") or Install.systemctl)))
    found = look(systemctl, paths)
    unit = asked.get("unit")
    names = [one["unit"] for one in found["units"]]
    if unit is None and len(names) == 1:
        unit = names[0]
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "uid": os.geteuid(),
        "groups": _groups(),
        "boot_id": clock.boot_id(),
        "systemd": _systemd(systemctl),
        **found,
        "programs": programs.sha256(paths),
        "unit": unit,
        "service": _service(systemctl, unit, asked) if unit else None,
        "site": store.read_json(paths.unit(unit).site) if unit else None,
        "journal": {"readable": journal_access.readable(root), "files": journal_access.files(root)},
        "room": [_room(f"{root}{path}") for path in _ROOM if os.path.isdir(f"{root}{path}")],
    }


def _service(systemctl: Systemctl, unit: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    try:
        shown = systemctl.run("--no-pager", "show", "-p", ",".join(_PROPERTIES), unit)
        props = systemctl.show(unit, *_PROPERTIES)
    except SystemctlError as error:
        return {"error": str(error)}
    pid = int(props.get("MainPID") or 0)
    argv = read_argv(pid)
    port = pins.of_argv(argv)
    env, unreadable = _given(systemctl, unit, props.get("User", ""))
    reason = adopt_checks.unsupported(unit, props, argv, parents().engine_below(pid)) if argv else None
    reason = reason or likeness.other_unit(unit, props)
    same = adopt_checks.same_command(props.get("ExecStart", ""), argv, env) if argv and not unreadable else None
    on_disk, running = adopt_checks.both(props.get("ExecStart", ""), argv)
    command = None if unreadable else drop_in.exec_argv(props.get("ExecStart", ""))
    said: dict[str, Any] = {
        "props": {name: redact_text(value) for name, value in props.items()},
        "environment_files": wrapper.files(shown),
        "environment_unreadable": unreadable,
        "argv": redact_argv(argv) if argv else None,
        "unsupported": reason,
        "output": likeness.output(props),
        "same_command": same,
        "on_disk": on_disk,
        "running": running,
        "command_remarks": exec_lint.lint(command, env) if command else [],
        "port": port,
    }
    if reason is None and argv:
        said["api"] = _api(port or int(asked.get("api_port") or pins.DEFAULT_PORT), asked.get("api_key_file"), argv)
        said["build"] = _build(argv, env) if asked.get("probe") else None
    return said


def _given(systemctl: Systemctl, unit: str, user: str) -> tuple[dict[str, str], Optional[str]]:
    try:
        return wrapper.given(systemctl, unit, user), None
    except (wrapper.UnreadableError, SystemctlError) as error:
        return {}, str(error)


def _api(port: int, key_file: Any, argv: tuple[str, ...]) -> dict[str, Any]:
    """What the engine's API says without being asked for a token: statuses by path."""
    said: dict[str, Any] = {"port": port, "key": None}
    try:
        key = api.read_key(str(key_file) if key_file else None, argv)
    except api.ApiError as error:
        key, said["key"] = None, str(error)
    engine = api.Api(port, key, limit_s=_API_S)
    for path in ("/metrics", "/v1/loads", "/server_info", "/get_server_info"):
        try:
            reply = engine.get(path)
        except api.ApiError as error:
            said[path] = str(error)
            continue
        said[path] = reply.status
        if path == "/metrics" and reply.status == 200:
            said["families"] = reply.body.count(b"# TYPE sglang")
        if path.endswith("server_info") and reply.status == 200 and "version" not in said:
            said["version"] = _version(reply)
    return said


def _version(reply: api.Reply) -> Optional[str]:
    try:
        value = reply.json().get("version")
    except (api.ApiError, AttributeError):
        return None
    return str(value) if value else None


def _build(argv: tuple[str, ...], env: Mapping[str, str]) -> dict[str, Any]:
    """The build by its own ``--help``, asked as whoever is logged in."""
    own = {**env, **{name: os.environ[name] for name in ("HOME", "USER", "LOGNAME") if name in os.environ}}
    try:
        found = build_probe.probe(argv, "/", own, None, None)
    except (build_probe.ProbeError, RunError) as error:
        return {"error": redact_text(str(error))}
    return {name: found[name] for name in ("flags", "version", "build", "seconds")}


def _systemd(systemctl: Systemctl) -> dict[str, Any]:
    try:
        words = systemctl.run("--version").split()
    except SystemctlError as error:
        return {"version": None, "error": str(error)}
    return {"version": words[1] if len(words) > 1 else None}


def _room(path: str) -> dict[str, Any]:
    room = os.statvfs(path)
    return {
        "path": path,
        "free_mib": room.f_bavail * room.f_frsize // (1 << 20),
        "free_inodes": room.f_favail if room.f_files else None,
    }


def _groups() -> list[str]:
    names = {entry.gr_gid: entry.gr_name for entry in grp.getgrall()}
    return sorted(names.get(number, str(number)) for number in os.getgroups())
