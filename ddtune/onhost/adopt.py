"""Putting a service under ddtune, and taking it out again. Neither restarts it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any, Optional

from . import adopt_checks, clock, drop_in, inspect_process, programs, releases, schema, store
from .api import flag_value
from .as_user import RunError, run_as
from .context import Answer, Host, RefusalError, group_id
from .paths import UnitPaths
from .redact import redact_argv
from .release_rules import guarded_names
from .txn_model import TxnError, busy, from_json
from .unit import SystemctlError

ADOPT: schema.Fields = {
    "site": schema.maybe(schema.document(), {}),
    "profile": schema.maybe(schema.name, "adopted"),
    "meta": schema.maybe(schema.document(), {}),
    "owner": schema.maybe(schema.OWNER, {}),
    "invocation": schema.maybe(schema.name),
    "stop_timeout_s": schema.maybe(schema.number(5, 86400), drop_in.STOP_TIMEOUT_S),
}

UNADOPT: schema.Fields = {
    "owner": schema.maybe(schema.OWNER, {}),
    "programs": schema.maybe(schema.flag, False),
    "keep_helper": schema.maybe(schema.flag, False),
}


def adopt(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Makes what runs now the stable release of ``unit`` and lets its next start go through ddtune.

    ``fields`` are those of ``ADOPT``; ``invocation`` names the start that was judged. If a step fails, all that was
    written is taken back. Raises ``RefusalError``.
    """
    paths = host.paths.unit(unit)
    if store.read_json(paths.site) is not None:
        raise RefusalError("unknown", f"{unit} is under ddtune already")
    missing = [sentence for sentence in programs.problems(host.paths) if "is missing" in sentence]
    if missing:
        raise RefusalError("not_adopted", missing[0])
    props = host.systemctl.show(unit, *adopt_checks.PROPERTIES)
    process = _judged(unit, props, fields["invocation"])
    argv = adopt_checks.absolute(process.argv, process.env)
    gid = group_id(props["User"], props["Group"])
    _check_launcher(host, unit, props, process)
    site = {
        **fields["site"],
        "profile": fields["profile"],
        "at": clock.wall(),
        "user": props["User"],
        "group": props["Group"],
        "stop_timeout_s": fields["stop_timeout_s"],
        "tp_size": _tp_size(argv) or fields["site"].get("tp_size"),
    }
    base = {"argv": argv, "cwd": process.cwd, "env_names": guarded_names(process.env)}
    release = {"argv": argv, "cwd": process.cwd, "env_set": {}, "env_unset": [], "schema": releases.SCHEMA}
    with contextlib.ExitStack() as undo:
        _make_state(paths, undo)
        with store.locked(paths):
            if store.read_json(paths.site) is not None:
                raise RefusalError("busy", f"somebody else has just put {unit} under ddtune")
            sha = releases.put(paths, release, {**fields["meta"], "profile": fields["profile"]}, gid)
            store.write_json(paths.base, base, 0o440, gid)
            releases.set_stable(paths, sha)
            _note(paths, "adopted", fields, {"profile": fields["profile"], "release": sha})
            undo.callback(_reload_again, host)
            _write_drop_in(paths, drop_in.render(host.install, unit, fields["stop_timeout_s"]), undo)
            _verify_loaded(host, paths, fields["stop_timeout_s"])
            store.write_json(paths.site, site)
        undo.pop_all()
    return {"release": sha, "site": site, "argv": redact_argv(argv), "cwd": process.cwd, "drop_in": paths.drop_in}


def unadopt(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Gives ``unit`` back to its own unit file and leaves it running. Raises ``RefusalError`` while a change runs."""
    paths = host.paths.unit(unit)
    if not os.path.isdir(paths.state) and not os.path.exists(paths.drop_in):
        raise RefusalError("not_adopted", f"{unit} is not under ddtune on this host")
    with store.locked(paths):
        _refuse_busy(paths)
        process = host.running(unit)
        removed = [path for path in (paths.drop_in, paths.state, paths.run) if os.path.lexists(path)]
        if os.path.lexists(paths.drop_in):
            store.remove(paths.drop_in)
        with contextlib.suppress(OSError):
            os.rmdir(paths.drop_in_dir)
        _reload_again(host)
        props = host.systemctl.show(unit, "ExecStart", "DropInPaths", "FragmentPath")
        if paths.drop_in in props.get("DropInPaths", "").split():
            raise RefusalError("unknown", f"systemd still uses {paths.drop_in} after it was removed")
        for folder in (paths.state, paths.run):
            shutil.rmtree(folder, ignore_errors=True)
    changes = adopt_checks.differs(props.get("ExecStart", ""), process.argv, process.env) if process else None
    stays = []
    if fields["programs"] and not host.adopted_units():
        removed += programs.uninstall(host, fields["keep_helper"])
        stays = [host.paths.helper] if fields["keep_helper"] else []
    return {
        "removed": removed,
        "stays": stays,
        "running": process is not None,
        "next_start": {"differs": changes is not None, "command": changes[0] if changes else None},
    }


def _judged(unit: str, props: Mapping[str, str], invocation: Optional[str]) -> inspect_process.Process:
    """The main process of a service that can be adopted as it runs now."""
    pid = int(props.get("MainPID") or 0)
    process = inspect_process.read_process(pid) if pid else None
    if process is None:
        if props.get("LoadState") != "loaded":
            raise RefusalError("unsupported_unit", f"{unit} has no unit file on this host")
        raise RefusalError("unsupported_unit", f"{unit} is not running: start it first, ddtune adopts what runs")
    reason = adopt_checks.unsupported(unit, props, process.argv)
    if reason:
        raise RefusalError("unsupported_unit", reason)
    if invocation and invocation != props.get("InvocationID"):
        raise RefusalError("drift", f"{unit} was restarted since it was judged: judge it again")
    changed = adopt_checks.differs(props.get("ExecStart", ""), process.argv, process.env)
    if changed:
        raise RefusalError(
            "drift",
            f"{unit} does not run what its unit file says: restart it or correct the file first",
            {"on_disk": changed[0], "running": changed[1], "file": props.get("FragmentPath")},
        )
    try:
        "\0".join([*process.argv, process.cwd]).encode()
    except UnicodeEncodeError:
        raise RefusalError("unsupported_unit", f"the command line of {unit} is not UTF-8") from None
    return process


def _check_launcher(host: Host, unit: str, props: Mapping[str, str], process: inspect_process.Process) -> None:
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


def _make_state(paths: UnitPaths, undo: contextlib.ExitStack) -> None:
    for folder in (paths.state, paths.run):
        if not os.path.isdir(folder):
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
        programs.make_dirs(folder)
    programs.make_dirs(paths.releases)


def _write_drop_in(paths: UnitPaths, text: str, undo: contextlib.ExitStack) -> None:
    if not os.path.isdir(paths.drop_in_dir):
        undo.callback(_quietly(os.rmdir), paths.drop_in_dir)
    undo.callback(_quietly(store.remove), paths.drop_in)
    programs.make_dirs(paths.drop_in_dir)
    store.atomic_write(paths.drop_in, text.encode(), 0o644)


def _verify_loaded(host: Host, paths: UnitPaths, stop_timeout_s: float) -> None:
    host.systemctl.daemon_reload()
    props = host.systemctl.show(paths.unit, "ExecStart", "DropInPaths")
    changed = drop_in.drift(host.install, paths, props, stop_timeout_s)
    if changed:
        raise RefusalError("drift", f"the drop-in did not take effect, so it was taken back: {changed}")


def _note(paths: UnitPaths, event: str, fields: Mapping[str, Any], to: Mapping[str, Any]) -> None:
    releases.add_history(
        paths, {"op": None, "event": event, "outcome": event, "cause": None, "owner": fields["owner"], "to": dict(to)}
    )


def _refuse_busy(paths: UnitPaths) -> None:
    found = store.read_json(paths.txn)
    with contextlib.suppress(TxnError):
        if found and busy(from_json(found)):
            raise RefusalError("busy", f"a transaction of {paths.unit} is running: wait for its end or abort it")


def _reload_again(host: Host) -> None:
    with contextlib.suppress(SystemctlError):
        host.systemctl.daemon_reload()


def _quietly(act: Callable[[str], Any]) -> Callable[[str], None]:
    def quiet(path: str) -> None:
        with contextlib.suppress(OSError):
            act(path)

    return quiet


def _tp_size(argv: list[str]) -> int | None:
    for flag in ("--tp-size", "--tensor-parallel-size", "--tp"):
        value = flag_value(argv, flag)
        if value and value.isdigit():
            return int(value)
    return None
