"""The installed programs: writing them, judging who could change them, taking them away."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
import shlex
import stat
import subprocess
import zipfile
from dataclasses import asdict
from io import BytesIO
from typing import Any

from . import drop_in, schema, store
from .context import Answer, Host, RefusalError
from .paths import PROTO, Install, Paths
from .txn_model import busy, from_json
from .unit import SystemctlError

_PYTHON_CHECK = "import sys; sys.exit(0 if sys.version_info >= (3, 9) else 9)"

INSTALL = schema.record(
    {
        "proto": schema.integer(1, 1000),
        "root": schema.maybe(lambda value: value if value == "" else schema.path(value), ""),
        "python": schema.path,
        "systemctl": schema.path,
        "systemd_run": schema.path,
        "journalctl": schema.path,
    }
)

FIELDS: schema.Fields = {"pyz_b64": schema.word(8 * 1024 * 1024), "install": INSTALL}


def install(request: dict[str, Any]) -> Answer:
    """Writes or renews the programs from ``{"pyz_b64", "install"}``; restarts nothing. Raises ``RefusalError``."""
    wanted = schema.fields(request, FIELDS)
    constants = wanted["install"]
    paths = Paths(constants["root"])
    target = Install(**{**constants, "pyz": paths.pyz})
    if constants["proto"] != PROTO:
        raise RefusalError("unknown", f"these programs speak protocol {PROTO}, not {constants['proto']}")
    if not constants["root"] and os.geteuid() != 0:
        raise RefusalError("read_only", "installing on this host needs root")
    pyz = _decoded(wanted["pyz_b64"])
    _check_python(target.python)
    host = Host.of(target)
    for unit in host.adopted_units():
        found = store.read_json(paths.unit(unit).txn)
        if found and busy(from_json(found)):
            raise RefusalError("busy", f"a transaction of {unit} is running: the programs are not changed under it")
    files = _files(paths, target, pyz)
    for path, (data, mode) in files.items():
        make_dirs(os.path.dirname(path))
        store.atomic_write(path, data, mode)
    for unit_dir in (paths.state, paths.run):
        make_dirs(unit_dir)
    _reload(host)
    return {"pyz_sha256": hashlib.sha256(pyz).hexdigest(), "files": sorted(files), "problems": problems(paths)}


def uninstall(host: Host, keep_helper: bool) -> list[str]:
    """Removes the programs (all but the helper when told to) and their empty folders; answers what went."""
    paths, removed = host.paths, []
    kept = {paths.helper} if keep_helper else set()
    for path in (paths.ended_service, paths.rollback, paths.helper, paths.install, paths.pyz):
        if path not in kept and os.path.exists(path):
            store.remove(path)
            removed.append(path)
    for folder in (paths.lib, os.path.dirname(paths.lib), paths.state, paths.run):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
            removed.append(folder)
    _reload(host)
    return removed


def problems(paths: Paths) -> list[str]:
    """Sentences about programs that are missing or that others than their owner could change."""
    found = []
    for path in (paths.pyz, paths.install, paths.helper, paths.rollback, paths.ended_service):
        if not os.path.lexists(path):
            found.append(f"{path} is missing: adopt the host again")
            continue
        while len(path) > max(1, len(paths.root)):
            found += _weak(path)
            path = os.path.dirname(path)
    return sorted(set(found))


def sha256(paths: Paths) -> str | None:
    """The hash that the installed zipapp is compared by; None when there is none."""
    try:
        with open(paths.pyz, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def _files(paths: Paths, target: Install, pyz: bytes) -> dict[str, tuple[bytes, int]]:
    constants = {name: value for name, value in asdict(target).items() if name != "pyz"}
    run = f"exec {shlex.quote(target.python)} -I {shlex.quote(paths.pyz)}"
    return {
        paths.pyz: (pyz, 0o644),
        paths.install: (json.dumps(constants, sort_keys=True, indent=1).encode() + b"\n", 0o644),
        paths.helper: (f"#!/bin/sh\n{run} helper\n".encode(), 0o755),
        paths.rollback: (f"#!/bin/sh\n{run} rollback\n".encode(), 0o755),
        paths.ended_service: (drop_in.render_ended(target).encode(), 0o644),
    }


def _decoded(text: str) -> bytes:
    try:
        pyz = base64.b64decode(text, validate=True)
        with zipfile.ZipFile(BytesIO(pyz)) as archive:
            names = archive.namelist()
    except (binascii.Error, ValueError, zipfile.BadZipFile):
        raise RefusalError("unknown", "field 'pyz_b64' is not a zipapp") from None
    if "__main__.py" not in names or "ddtune/onhost/main.py" not in names:
        raise RefusalError("unknown", "field 'pyz_b64' is a zipapp, but not ddtune's")
    return pyz


def _check_python(python: str) -> None:
    try:
        done = subprocess.run(
            [python, "-I", "-c", _PYTHON_CHECK], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        raise RefusalError("unknown", f"{python} cannot be run on this host") from None
    if done.returncode:
        raise RefusalError("unknown", f"{python} is older than Python 3.9 or does not work on this host")


def make_dirs(path: str) -> None:
    """Makes ``path`` for everybody to enter and nobody else to write, whatever the umask."""
    if os.path.isdir(path):
        return
    make_dirs(os.path.dirname(path))
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
        os.chmod(path, 0o755)


def _weak(path: str) -> list[str]:
    status = os.stat(path)
    if status.st_uid not in (0, os.geteuid()):
        return [f"{path} belongs to user {status.st_uid}, who could change what runs as root"]
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if status.st_mode & 0o022 and not sticky:
        return [f"{path} can be written by others than its owner: chmod go-w {shlex.quote(path)}"]
    return []


def _reload(host: Host) -> None:
    try:
        host.systemctl.daemon_reload()
    except SystemctlError as error:
        raise RefusalError("unknown", f"systemd did not reload its units: {error}") from None
