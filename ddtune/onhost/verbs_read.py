"""The helper's verbs that tell what is kept and what runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import clock, inspect_process, outside, pins, releases, schema, store, traffic, who
from .alive import guard_alive
from .context import Answer, Host, RefusalError
from .paths import UnitPaths
from .redact import redact_argv, redact_env, redact_text

NOTHING: schema.Fields = {}
STATE: schema.Fields = {"limit": schema.maybe(schema.integer(0, 10000), 20)}
RELEASE: schema.Fields = {"sha": schema.sha}
CAN_HOLD: schema.Fields = {"api_port": schema.maybe(schema.integer(1, 65535))}
INSPECT: schema.Fields = {"env": schema.maybe(schema.many(schema.env_name, 500), ())}

_PROPERTIES = (
    "LoadState", "ActiveState", "SubState", "Result", "MainPID", "InvocationID", "NRestarts", "ExecMainStatus",
    "ExecMainCode", "FragmentPath", "DropInPaths", "ExecStart", "User", "Group", "Restart", "KillMode", "Type",
    "TimeoutStopUSec", "StartLimitBurst", "StartLimitIntervalUSec", "WorkingDirectory", "ControlGroup",
    "NeedDaemonReload",
)  # fmt: skip


def state(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """All that ddtune keeps of ``unit``; for one that is not adopted only that it is not."""
    paths = host.paths.unit(unit)
    site, base = store.read_json(paths.site), store.read_json(paths.base)
    stable, previous = releases.stable(paths), releases.previous(paths)
    txn = store.read_json(paths.txn)
    return {
        "adopted": site is not None,
        "site": site,
        "base": base and {"argv": redact_argv(base["argv"]), "cwd": base["cwd"]},
        "stable": _about(paths, stable),
        "previous": _about(paths, previous),
        "txn": txn,
        "probation": store.read_json(paths.probation),
        "quarantine": releases.quarantine_names(paths),
        "releases": releases.listed(paths),
        "envelope": releases.envelope(paths),
        "history": releases.history(paths, fields["limit"]),
        "ended": store.read_json(paths.ended),
        "launched": (store.read_json(paths.chosen) or {}).get("invocation"),
        "guard_alive": guard_alive(paths, str(txn["op"])) if txn and txn.get("op") else False,
        "boottime": clock.boottime(),
        "boot_id": clock.boot_id(),
    }


def release(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """One release and what is known of it; keys are placeholders.

    Variables are told to who may change them: a profile is compared with them.
    """
    paths = host.adopted(unit)
    try:
        found = releases.read(paths, fields["sha"])
    except releases.ReleaseError as error:
        raise RefusalError("unknown", str(error)) from None
    return {
        "release": {**found, "argv": redact_argv(found["argv"])},
        "meta": releases.meta(paths, fields["sha"]),
        "quarantine": releases.quarantined(paths, fields["sha"]),
    }


def release_without_secrets(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """The same for a login that may only look: secret variables are placeholders, too."""
    said = release(host, unit, fields)
    return {**said, "release": {**said["release"], "env_set": redact_env(said["release"]["env_set"])}}


def base(host: Host, unit: str, _fields: Mapping[str, Any]) -> Answer:
    """The base that profiles are resolved against; keys are placeholders."""
    found = read_base(host.adopted(unit))
    return {"argv": redact_argv(found["argv"]), "cwd": found["cwd"]}


def inspect(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """What runs now, from systemd and /proc."""
    props = host.systemctl.show(unit, *_PROPERTIES)
    pid = _number(props.get("MainPID"))
    process = inspect_process.read_process(pid) if pid else None
    paths = host.paths.unit(unit)
    found, holds = matching(paths, process) if process else (None, None)
    env = process.env if process else {}
    return {
        "pid": process.pid if process else None,
        "argv": redact_argv(process.argv) if process else None,
        "cwd": process.cwd if process else None,
        "env": redact_env({name: env.get(name) for name in fields["env"]}),
        "release_env_ok": holds,
        "matches": {"release": found},
        "started_at": process.started_at if process else None,
        "schedulers": inspect_process.schedulers(process.pid) if process else [],
        "invocation": props.get("InvocationID") or None,
        "n_restarts": _number(props.get("NRestarts")),
        "active_state": props.get("ActiveState"),
        "sub_state": props.get("SubState"),
        "result": props.get("Result"),
        "drop_ins": props.get("DropInPaths", "").split(),
        "exec_start": redact_text(props.get("ExecStart", "")),
        "props": {name: value for name, value in props.items() if name != "ExecStart"},
        "outside": outside.changed(host, paths, props) if store.read_json(paths.site) is not None else None,
    }


def can_hold(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Whether other machines can be kept from a trial on this host (``why_not`` is null then); changes nothing."""
    try:
        traffic.check(host.install, unit, pins.pinned(host.adopted(unit), fields["api_port"], None)[0])
    except traffic.CannotHoldError as error:
        return {"why_not": str(error)}
    return {"why_not": None}


def acted(host: Host, unit: str, _fields: Mapping[str, Any]) -> Answer:
    """Who acted on the service outside of ddtune in the last day, in a sentence; null where nothing tells."""
    return {"who": who.acted(host.install, unit, 86400)}


def read_base(paths: UnitPaths) -> dict[str, Any]:
    """The adopted base; refused when its file is gone or broken."""
    found = store.read_json(paths.base)
    if not found or not isinstance(found.get("argv"), list) or not isinstance(found.get("cwd"), str):
        raise RefusalError("drift", f"{paths.base} is gone or cannot be read: unadopt and adopt {paths.unit} again")
    return found


def matching(paths: UnitPaths, process: inspect_process.Process) -> tuple[str | None, bool | None]:
    """The release whose argv is the process's own, and whether the environment it asks for holds there.

    Of several with the same argv the one whose environment holds is meant, the stable one first.
    """
    first = releases.stable(paths)
    names = sorted((one["release"] for one in releases.listed(paths)), key=lambda sha: (sha != first, sha))
    without: str | None = None
    for sha in names:
        try:
            found = releases.read(paths, sha)
        except releases.ReleaseError:
            continue
        if tuple(found["argv"]) != process.argv:
            continue
        if inspect_process.env_holds(process.env, found["env_set"], found["env_unset"]):
            return sha, True
        without = without or sha
    return without, False if without else None


def _about(paths: UnitPaths, sha: str | None) -> Answer | None:
    if sha is None:
        return None
    meta = releases.meta(paths, sha)
    return {"release": sha, "profile": meta.get("profile"), "meta": meta}


def _number(value: str | None) -> int | None:
    return int(value) if value and value.isdecimal() else None
