"""Putting a service under ddtune. Restarts nothing, and an adoption that was cut off anywhere is made good by the next.

The order makes it so: what a start through the launcher needs is there before the drop-in, and the site's file, which
alone says "adopted", is written last.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from . import (
    adopt_checks,
    clock,
    drop_in,
    inspect_process,
    likeness,
    pins,
    programs,
    releases,
    schema,
    store,
    unit_files,
    wrapper,
)
from .api import ApiError, read_key
from .as_user import RunError, run_as
from .context import Answer, Host, RefusalError, group_id
from .paths import UnitPaths
from .redact import redact_argv
from .release_rules import guarded_names
from .unit import SystemctlError
from .verbs_release import META, said

_CHANGED_SINCE_S = 1.0

ADOPT: schema.Fields = {
    "site": schema.maybe(schema.document(), {}),
    "profile": schema.maybe(schema.name, "adopted"),
    "meta": schema.maybe(META, {}),
    "owner": schema.maybe(schema.OWNER, {}),
    "invocation": schema.maybe(schema.name),
    "stop_timeout_s": schema.maybe(schema.number(5, 86400), drop_in.STOP_TIMEOUT_S),
    "api_port": schema.maybe(schema.integer(1, 65535)),
    "api_key_file": schema.maybe(schema.path),
}

JUDGE: schema.Fields = {"api_port": schema.maybe(schema.integer(1, 65535))}


@dataclass(frozen=True)
class Found:
    """A service that can be adopted. ``env_set`` and ``env_unset`` are what its wrapper does to the environment."""

    process: inspect_process.Process
    props: Mapping[str, str]
    env_set: Mapping[str, str] = field(default_factory=dict)
    env_unset: tuple[str, ...] = ()


def can_adopt(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Whether ``unit`` could be adopted as it runs now, and what would be kept of it. Changes nothing.

    Raises ``RefusalError`` with the reason where it could not.
    """
    paths = host.paths.unit(unit)
    if store.read_json(paths.site) is not None:
        return {"adopted": True}
    if os.path.lexists(paths.drop_in):
        # Of an adoption that was cut off: the next one takes it away first, and only then can be told.
        return {"adopted": False, "cut_off": True}
    found = _found(host, unit, None)
    port = pins.checked(unit, found.process.argv, fields["api_port"])
    kept = {"env_set": sorted(found.env_set), "env_unset": list(found.env_unset)}
    return {"adopted": False, "cut_off": False, "argv": redact_argv(found.process.argv), "api_port": port, **kept}


def adopt(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Makes what runs now the stable release of ``unit`` and lets its next start go through ddtune.

    ``fields`` are those of ``ADOPT``; ``invocation`` names the start that was judged. For a unit that is adopted
    already it says so. If a step fails, all that was written is taken back. Raises ``RefusalError``.
    """
    paths = host.paths.unit(unit)
    if store.read_json(paths.site) is not None:
        return _already(paths)
    missing = programs.missing(host.paths)
    if missing:
        raise RefusalError("not_adopted", missing[0])
    clear_remains(host, paths)
    found = _found(host, unit, fields["invocation"])
    process, props = found.process, found.props
    argv = adopt_checks.absolute(process.argv, process.env, process.cwd)
    gid = group_id(props["User"], props["Group"])
    check_launcher(host, unit, props, process)
    site = {
        **fields["site"],
        "profile": fields["profile"],
        "at": clock.wall(),
        "user": props["User"],
        "group": props["Group"],
        "stop_timeout_s": fields["stop_timeout_s"],
        "api_port": pins.checked(unit, argv, fields["api_port"]),
        "api_key_file": _key_file(fields["api_key_file"]),
    }
    base = {
        "argv": argv,
        "cwd": process.cwd,
        "env_names": guarded_names(process.env),
        "env_set": dict(found.env_set),
        "env_unset": list(found.env_unset),
        "made_folder": not os.path.isdir(paths.drop_in_dir),
    }
    release = {"argv": argv, "cwd": process.cwd, "env_set": {}, "env_unset": [], "schema": releases.SCHEMA}
    with contextlib.ExitStack() as undo:
        undo.callback(clear_remains, host, paths)
        for folder in (paths.state, paths.run, paths.releases):
            programs.make_dirs(folder)
        with store.locked(paths):
            if store.read_json(paths.site) is not None:
                undo.pop_all()
                return _already(paths)
            sha = releases.put(paths, release, {**said(fields["meta"]), "profile": fields["profile"]}, gid)
            store.write_json(paths.base, base, 0o440, gid)
            releases.set_stable(paths, sha)
            _note(paths, fields, {"profile": fields["profile"], "release": sha})
            programs.make_dirs(paths.drop_in_dir)
            store.atomic_write(
                paths.drop_in, drop_in.render(host.install, unit, fields["stop_timeout_s"]).encode(), 0o644
            )
            warnings = _verify_loaded(host, paths, fields["stop_timeout_s"])
            unit_files.keep(paths, host.systemctl.show(unit, *unit_files.PROPERTIES))
            store.write_json(paths.site, site)
        undo.pop_all()
    return {
        "release": sha,
        "site": site,
        "argv": redact_argv(argv),
        "cwd": process.cwd,
        "drop_in": paths.drop_in,
        "already": False,
        "wrapper": {"env_set": sorted(found.env_set), "env_unset": list(found.env_unset)},
        "warnings": [*warnings, *_unheard(unit, props)],
    }


def clear_remains(host: Host, paths: UnitPaths) -> None:
    """Takes away what an adoption that never came to its end has left; for an adopted unit it does nothing."""
    if not any(map(os.path.lexists, (paths.state, paths.run, paths.drop_in))):
        return
    with store.locked(paths):
        if store.read_json(paths.site) is not None:
            return
        remove_drop_in(host, paths, (store.read_json(paths.base) or {}).get("made_folder") is True)
        # A folder with a longer past than adoptions has lost its site's file: what it knows is not thrown away.
        if all(line.get("event") == "adopted" for line in releases.history(paths)):
            for folder in (paths.run, paths.state):
                shutil.rmtree(folder, ignore_errors=True)


def remove_drop_in(host: Host, paths: UnitPaths, made_folder: bool) -> list[str]:
    """Removes the drop-in, and its folder where that was made for it; answers what went."""
    removed = []
    store.sweep(paths.drop_in)
    if os.path.lexists(paths.drop_in):
        store.remove(paths.drop_in)
        removed.append(paths.drop_in)
    if made_folder:
        with contextlib.suppress(OSError):
            os.rmdir(paths.drop_in_dir)
    with contextlib.suppress(SystemctlError):
        host.systemctl.daemon_reload()
    return removed


def _unheard(unit: str, props: Mapping[str, str]) -> list[str]:
    output = likeness.output(props)
    if output is None:
        return []
    return [f"{unit} has {output}: no fatal line of its engine is seen, so that a crash shows by its end only"]


def _already(paths: UnitPaths) -> Answer:
    site = store.read_json(paths.site) or {}
    return {"release": releases.stable(paths), "site": site, "drop_in": paths.drop_in, "already": True}


def _found(host: Host, unit: str, invocation: Optional[str]) -> Found:
    """The main process of a service that can be adopted as it runs now."""
    props = host.systemctl.show(unit, *adopt_checks.PROPERTIES, *wrapper.PROPERTIES, *likeness.PROPERTIES)
    pid = int(props.get("MainPID") or 0)
    process = inspect_process.read_process(pid) if pid else None
    if process is None:
        if props.get("LoadState") != "loaded":
            raise RefusalError("unsupported_unit", f"{unit} has no unit file on this host")
        raise RefusalError("unsupported_unit", f"{unit} is not running: start it first, ddtune adopts what runs")
    reason = adopt_checks.unsupported(unit, props, process.argv, inspect_process.parents().engine_below(pid))
    reason = reason or likeness.other_unit(unit, props)
    reason = reason or likeness.no_start(host.install, host.paths.unit(unit), props, process)
    if reason:
        raise RefusalError("unsupported_unit", reason)
    if invocation and invocation != props.get("InvocationID"):
        raise RefusalError("drift", f"{unit} was restarted since it was judged: judge it again")
    try:
        "\0".join([*process.argv, process.cwd, *process.env, *process.env.values()]).encode()
    except UnicodeEncodeError:
        raise RefusalError("unsupported_unit", f"the command line or environment of {unit} is not UTF-8") from None
    sources = _given(host, unit, props)
    same = adopt_checks.same_command(props.get("ExecStart", ""), process.argv, sources)
    if same is False:
        on_disk, running = adopt_checks.both(props.get("ExecStart", ""), process.argv)
        raise RefusalError(
            "drift",
            f"{unit} does not run what its unit file says: restart it or correct the file first",
            {"on_disk": on_disk, "running": running, "file": props.get("FragmentPath")},
        )
    if same:
        return Found(process, props)
    _check_wrapper(host, unit, props, process)
    env_set, env_unset = wrapper.carried(process.env, sources)
    return Found(process, props, env_set, tuple(env_unset))


def _given(host: Host, unit: str, props: Mapping[str, str]) -> dict[str, str]:
    try:
        return wrapper.given(host.systemctl, unit, props.get("User", ""))
    except wrapper.UnreadableError as error:
        raise RefusalError("drift", f"the environment of {unit} cannot be read: {error}") from None


def _check_wrapper(host: Host, unit: str, props: Mapping[str, str], process: inspect_process.Process) -> None:
    """Refuses a wrapper that has changed since the start, or does what the launcher would not."""
    show = props.get("ExecStart", "")
    shown = host.systemctl.run("--no-pager", "show", "-p", "EnvironmentFiles", unit)
    files = [*adopt_checks.wrapper_files(show, process.argv), props.get("FragmentPath", "")]
    files += props.get("DropInPaths", "").split() + [path for path, _ in wrapper.files(shown)]
    changed_at, path = wrapper.newest_change(files)
    if process.started_at is not None and changed_at > process.started_at + _CHANGED_SINCE_S:
        on_disk, running = adopt_checks.both(show, process.argv)
        raise RefusalError(
            "drift",
            f"{path} was changed after {unit} was started, so that it may run something else than its unit says:"
            " restart it first",
            {"on_disk": on_disk, "running": running, "file": path},
        )
    acts = wrapper.other_acts(process.pid, props) + (
        [] if host.install.root else likeness.other_acts(process.pid, props)
    )
    if acts:
        raise RefusalError(
            "unsupported_unit",
            f"the wrapper of {unit} sets what ddtune's launcher would not: put {', '.join(acts)} into the unit's"
            " [Service] and restart it",
            {"settings": acts},
        )


def check_launcher(host: Host, unit: str, props: Mapping[str, str], process: inspect_process.Process) -> None:
    """Refuses a unit whose user could not start through ddtune: its next start would fail."""
    command = [host.install.python, "-I", host.install.pyz, "version"]
    try:
        status, out, err = run_as(command, process.cwd, process.env, props["User"], 30.0)
    except RunError as error:
        raise RefusalError("unsupported_unit", f"{unit} could not start through ddtune: {error}") from None
    if status:
        said = (err or out).decode("utf-8", "replace").strip().splitlines()[-1:] or [f"status {status}"]
        who = props["User"] or "root"
        raise RefusalError(
            "unsupported_unit", f"{unit} runs as {who}, who cannot run ddtune's launcher: {said[0][:300]}"
        )


def _key_file(path: Optional[str]) -> Optional[str]:
    try:
        read_key(path, ())
    except ApiError as error:
        raise RefusalError("unknown", str(error)) from None
    return path


def _verify_loaded(host: Host, paths: UnitPaths, stop_timeout_s: float) -> list[str]:
    """Refuses unless systemd will start through the launcher; warns of drop-ins that are read after ours."""
    host.systemctl.daemon_reload()
    props = host.systemctl.show(paths.unit, *drop_in.PROPERTIES)
    changed = drop_in.drift(host.install, paths, props, stop_timeout_s)
    later = drop_in.later(paths, props)
    if changed:
        over = [path for path, names in later.items() if "ExecStart" in names]
        why = f"{over[0]} is read after it and sets ExecStart=: give it a name before zz-ddtune" if over else changed
        raise RefusalError("drift", f"the drop-in did not take effect, so it was taken back: {why}")
    return [
        f"{path} is read after ddtune's drop-in"
        + (f" and sets {', '.join(names)}, which ddtune sets too" if names else "; nothing in it is ddtune's")
        for path, names in later.items()
    ]


def _note(paths: UnitPaths, fields: Mapping[str, Any], to: Mapping[str, Any]) -> None:
    event = {"op": None, "event": "adopted", "outcome": "adopted", "cause": None, "owner": fields["owner"]}
    releases.add_history(paths, {**event, "to": dict(to)})
