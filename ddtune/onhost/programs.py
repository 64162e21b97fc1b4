"""The installed programs: writing them, judging who could change them, taking them away."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
import re
import shlex
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any, Optional

from . import drop_in, interpreter, schema, store, tools, trusted
from .context import Answer, Host, RefusalError
from .paths import PROTO, Install, Paths, load_install
from .txn_model import busy, from_json
from .unit import SystemctlError

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

_USER = schema.pattern(re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,60}"), "a user's name")
FIELDS: schema.Fields = {
    "pyz_b64": schema.word(8 * 1024 * 1024),
    "install": INSTALL,
    "sudo_user": schema.maybe(_USER),
    "viewer": schema.maybe(_USER),
}

_SUDOERS_HEAD = (
    "# ddtune: these logins may ask its helper, which takes no arguments; nothing else is allowed by this file.\n"
)


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
    chosen = interpreter.choose(target.python, constants["root"])
    target = target._replace(python=chosen.python)
    host = Host.of(target)
    for unit in host.adopted_units():
        found = store.read_json(paths.unit(unit).txn)
        if found and busy(from_json(found)):
            raise RefusalError("busy", f"a transaction of {unit} is running: the programs are not changed under it")
    # The drop-ins come first: what was cut off behind them is made good by the next installation.
    files = {**_drop_ins(host, load_install(paths.pyz)), **_files(paths, target, pyz)}
    allowed = {wanted["sudo_user"]: paths.helper, wanted["viewer"]: paths.viewer}
    if any(allowed):
        files[paths.sudoers] = (_sudoers(paths, {user: path for user, path in allowed.items() if user}), 0o440)
    _remember_folders(paths, files)
    for path, (data, mode) in files.items():
        make_dirs(os.path.dirname(path))
        store.sweep(path)
        store.atomic_write(path, data, mode)
    for unit_dir in (paths.state, paths.run):
        make_dirs(unit_dir)
    _reload(host)
    return {
        "pyz_sha256": hashlib.sha256(pyz).hexdigest(),
        "files": sorted(files),
        "problems": problems(target, chosen.loads),
        "python": chosen.python,
        "note": chosen.note,
    }


def uninstall(host: Host, keep_helper: bool) -> list[str]:
    """Removes the programs and the folders that were made for them; answers what went.

    With ``keep_helper`` the helper and its line of sudoers stay. What the helper itself needs goes last, so that a
    removal that was cut off can be asked for again.
    """
    paths, removed = host.paths, []
    made = _made(paths)
    kept = {paths.helper, paths.sudoers} if keep_helper else set()
    early = (paths.ended_service, paths.rollback, paths.sudoers, paths.viewer, paths.helper)
    removed += _remove(path for path in early if path not in kept and _is_ours(paths, path))
    _reload(host)
    # What was made is known only while the list of it is there.
    removed += _remove_folders((paths.state, paths.run, *made))
    removed += _remove((paths.install, paths.made, paths.pyz))
    return removed + _remove_folders((paths.lib, os.path.dirname(paths.lib), *made))


def by_hand(stays: Sequence[str]) -> str | None:
    """The command of root's that takes away what another login had to leave."""
    return f"rm {' '.join(map(shlex.quote, stays))}" if stays else None


def _remove(paths: Iterable[str]) -> list[str]:
    removed = []
    for path in paths:
        store.sweep(path)
        if os.path.lexists(path):
            store.remove(path)
            removed.append(path)
    return removed


def _remove_folders(paths: Iterable[str]) -> list[str]:
    """Removes those that are empty."""
    removed = []
    for path in paths:
        with contextlib.suppress(OSError):
            os.rmdir(path)
            removed.append(path)
    return removed


def _is_ours(paths: Paths, path: str) -> bool:
    if path != paths.sudoers:
        return True
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
        return file.read().startswith(_SUDOERS_HEAD)
    return False


def _sudoers(paths: Paths, allowed: Mapping[str, str]) -> bytes:
    """The file that lets the users ``allowed``, and whom it let before, ask their helpers. Raises ``RefusalError``."""
    lines: list[str] = []
    with contextlib.suppress(OSError, ValueError), open(paths.sudoers, encoding="utf-8") as file:
        lines = [line for line in file.read().splitlines() if line and not line.startswith("#")]
    if os.path.lexists(paths.sudoers) and not _is_ours(paths, paths.sudoers):
        raise RefusalError("unknown", f"{paths.sudoers} is not ddtune's: move it away first")
    lines = sorted({*lines, *(f'{user} ALL=(root) NOPASSWD: {path} ""' for user, path in allowed.items())})
    return (_SUDOERS_HEAD + "\n".join(lines) + "\n").encode()


def _made(paths: Paths) -> list[str]:
    """The folders outside our own that were made for the programs, the deepest first."""
    with contextlib.suppress(OSError, ValueError), open(paths.made, encoding="utf-8") as file:
        return sorted(file.read().splitlines(), key=len, reverse=True)
    return []


def _remember_folders(paths: Paths, files: Iterable[str]) -> None:
    """Writes down the folders that are not there yet, before one of them is made."""
    missing = set(_made(paths))
    for path in files:
        folder = os.path.dirname(path)
        while len(folder) > len(paths.root) + 1 and not os.path.isdir(folder):
            missing.add(folder)
            folder = os.path.dirname(folder)
    own = {paths.lib, os.path.dirname(paths.lib)}
    make_dirs(paths.lib)
    store.sweep(paths.made)
    store.atomic_write(paths.made, "".join(f"{folder}\n" for folder in sorted(missing - own)).encode(), 0o644)


def missing(paths: Paths) -> list[str]:
    """A sentence for each program that is not there."""
    return [f"{path} is missing: adopt the host again" for path in _own(paths) if not os.path.exists(path)]


def problems(install: Install, loaded: Optional[Iterable[str]] = None) -> list[str]:
    """Sentences about programs that are missing or that others than root could change: ours, and what they run.

    What they keep counts as well: whoever writes there names what is stable. ``loaded`` are the files that the
    interpreter of the programs loads, by default those of this one. An embedded host runs everything as whoever
    started it, with that one's own programs.
    """
    paths = Paths(install.root)
    found = missing(paths) + _sudoers_problems(paths)
    found += trusted.judged([*_own(paths), *_kept(paths)], install.root)
    if not install.root:
        found += trusted.judged([*tools.run_as_root(install), *(trusted.loaded() if loaded is None else loaded)])
    return sorted(set(found))


def _own(paths: Paths) -> tuple[str, ...]:
    return (paths.pyz, paths.install, paths.helper, paths.viewer, paths.rollback, paths.ended_service)


def _kept(paths: Paths) -> list[str]:
    """The folders of what is kept, on disk and in memory, that are there."""
    folders = [paths.state, paths.run]
    for folder in (paths.state, paths.run):
        with contextlib.suppress(OSError):
            folders += [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    return [folder for folder in folders if os.path.isdir(folder)]


def _sudoers_problems(paths: Paths) -> list[str]:
    """What the sudoers file allows beyond the helpers, and who could change it."""
    if not os.path.lexists(paths.sudoers):
        return []
    found = trusted.judged([paths.sudoers], paths.root)
    helpers = "|".join(map(re.escape, (paths.helper, paths.viewer)))
    # A number behind the sign is a user, and `#include` takes in another file.
    comment = re.compile(r"#(?!-?[0-9]|include)")
    line = re.compile(rf'[A-Za-z_][A-Za-z0-9_.-]* ALL=\(root\) NOPASSWD: (?:{helpers}) ""')
    try:
        with open(paths.sudoers, encoding="utf-8", errors="replace") as file:
            lines = [one for one in file.read().splitlines() if one and not comment.match(one)]
    except OSError:
        # Only root reads it, and another login's hello is answered by root as well.
        return found
    more = [one for one in lines if not line.fullmatch(one)]
    return [*found, *(f"{paths.sudoers} allows more than the helper: {one!r:.200}" for one in more)]


def sha256(paths: Paths) -> str | None:
    """The hash that the installed zipapp is compared by; None when there is none."""
    try:
        with open(paths.pyz, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def _files(paths: Paths, target: Install, pyz: bytes) -> dict[str, tuple[bytes, int]]:
    constants = {name: value for name, value in target._asdict().items() if name != "pyz"}
    run = f"exec {shlex.quote(target.python)} -I {shlex.quote(paths.pyz)}"
    return {
        paths.pyz: (pyz, 0o644),
        paths.install: (json.dumps(constants, sort_keys=True, indent=1).encode() + b"\n", 0o644),
        paths.helper: (_helper(paths, f"{run} helper").encode(), 0o755),
        paths.viewer: (_helper(paths, f"{run} viewer").encode(), 0o755),
        paths.rollback: (f"#!/bin/sh\n{run} rollback\n".encode(), 0o755),
        paths.ended_service: (drop_in.render_ended(target).encode(), 0o644),
    }


def _drop_ins(host: Host, before: Install) -> dict[str, tuple[bytes, int]]:
    """The drop-ins that name another interpreter than they did, where nobody has edited them since ``before``."""
    found = {}
    for unit in host.adopted_units():
        paths = host.paths.unit(unit)
        limit_s = drop_in.stop_timeout_s(store.read_json(paths.site) or {})
        was, new = (drop_in.render(install, unit, limit_s) for install in (before, host.install))
        with contextlib.suppress(OSError, ValueError), open(paths.drop_in, encoding="utf-8") as file:
            if file.read() == was != new:
                found[paths.drop_in] = (new.encode(), 0o644)
    return found


def _helper(paths: Paths, run: str) -> str:
    """The helper's text: where the programs are gone it says so, as it says everything."""
    gone = {
        "proto": PROTO,
        "ok": False,
        "cause": "not_adopted",
        "message": "ddtune's programs were removed from this host: run its installer again",
        "detail": {},
    }
    folders = " ".join(map(shlex.quote, (paths.lib, os.path.dirname(paths.lib))))
    return (
        f"#!/bin/sh\nPATH={trusted.SEARCHED}\nexport PATH\n"
        f"if [ ! -e {shlex.quote(paths.pyz)} ]; then\n"
        f"  rmdir {folders} 2>/dev/null\n"
        f"  echo {shlex.quote(json.dumps(gone))}\n"
        "  exit 0\n"
        "fi\n"
        f"{run}\n"
    )


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


def make_dirs(path: str) -> None:
    """Makes ``path`` for everybody to enter and nobody else to write, whatever the umask."""
    if os.path.isdir(path):
        return
    make_dirs(os.path.dirname(path))
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
        os.chmod(path, 0o755)


def _reload(host: Host) -> None:
    try:
        host.systemctl.daemon_reload()
    except SystemctlError as error:
        raise RefusalError("unknown", f"systemd did not reload its units: {error}") from None
