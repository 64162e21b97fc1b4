"""The helper's verbs about the host itself: what is installed, and what the installed engine can be told."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from . import build_probe, clock, flag_check, programs, releases, schema, store
from .as_user import RunError
from .context import Answer, Host, RefusalError
from .paths import PROTO, UnitPaths
from .unit import SystemctlError

NOTHING: schema.Fields = {}
# Without ``keep`` nothing is written: who only looks leaves no trace, and waits for the engine again the next time.
PROBE_BUILD: schema.Fields = {"keep": schema.maybe(schema.flag, False)}
CHECK_FLAGS: schema.Fields = {
    **PROBE_BUILD,
    "argv": schema.many(schema.word(), 2000),
    "env_set": schema.maybe(schema.mapping(schema.env_name, schema.word(), 500), {}),
    "env_unset": schema.maybe(schema.many(schema.env_name, 500), []),
}


def hello(host: Host, _unit: None, _fields: Mapping[str, Any]) -> Answer:
    """Versions and what is wrong with the installation."""
    installed = programs.sha256(host.paths)
    return {
        "versions": {"proto": PROTO},
        "python": ".".join(map(str, sys.version_info[:3])),
        "systemd_version": _systemd_version(host),
        "pyz_sha256": installed,
        "boot_id": clock.boot_id(),
        "boottime": clock.boottime(),
        "uid": os.geteuid(),
        "install": {
            "root": host.install.root,
            "python": host.install.python,
            "systemctl": host.install.systemctl,
            "systemd_run": host.install.systemd_run,
            "journalctl": host.install.journalctl,
        },
        "problems": programs.problems(host.install) if installed else [],
        "units": host.adopted_units(),
    }


def probe_build(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """The flags and the version of the installed engine; asked anew when interpreter or package have changed."""
    paths = host.paths.unit(unit)
    cache_file = f"{paths.state}/build.json"
    process, known = host.running(unit), store.read_json(paths.base)
    program = known or (process and {"argv": list(process.argv), "cwd": process.cwd})
    if not program:
        raise RefusalError("unknown", f"{unit} is not running and not adopted, so its engine is not known")
    env = process.env if process else {"PATH": os.defpath}
    user = host.systemctl.show(unit, "User").get("User")
    cache = store.read_json(cache_file)
    try:
        found = build_probe.probe(program["argv"], program["cwd"], env, user, cache)
    except (build_probe.ProbeError, RunError) as error:
        raise RefusalError("unknown", str(error)) from None
    if fields["keep"] and os.path.isdir(paths.state) and (cache is None or found["key"] != cache.get("key")):
        # A cache that cannot be kept costs seconds the next time, nothing else.
        with contextlib.suppress(OSError, store.DiskFull):
            store.write_json(cache_file, found)
            _note_build(paths, found["build"])
    return {name: found[name] for name in ("flags", "version", "build", "help_rc", "seconds")}


def _note_build(paths: UnitPaths, build: str) -> None:
    """Keeps which build is installed: what was judged on another one is unproven from here on."""
    site = store.read_json(paths.site)
    if site is None or site.get("build") in (None, build):
        return
    with store.locked(paths):
        site = store.read_json(paths.site) or {}
        text = f"the engine's package was changed from {site.get('build')} to {build}"
        event = {"op": None, "event": "engine_changed", "outcome": None, "cause": None, "owner": None, "text": text}
        releases.add_history(paths, {**event, "to": {}})
        store.write_json(paths.site, {**site, "build": build, "build_before": site.get("build")})


def check_flags(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """What the installed engine itself says of a release's command line; asked anew when the package has changed."""
    paths = host.adopted(unit)
    cache_file = f"{paths.state}/flag-checks.json"
    process = host.running(unit)
    if process is None:
        raise RefusalError("unknown", f"{unit} does not run, so that its engine cannot be asked")
    build = store.read_json(f"{paths.state}/build.json") or {}
    known = store.read_json(cache_file) or {}
    user = host.systemctl.show(unit, "User").get("User")
    found, cache = flag_check.check(
        process.argv,
        fields["argv"],
        fields["env_set"],
        fields["env_unset"],
        process.cwd,
        process.env,
        user,
        build.get("folder"),
        known,
    )
    if fields["keep"] and cache != known:
        with contextlib.suppress(OSError, store.DiskFull):
            store.write_json(cache_file, cache)
    return found


def _systemd_version(host: Host) -> str | None:
    try:
        words = host.systemctl.run("--version").split()
    except SystemctlError:
        return None
    return words[1] if len(words) > 1 else None
