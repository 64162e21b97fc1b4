"""Releases and what is known of them: immutable folders named by their hash, two links, and the records beside."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from . import clock, store
from .paths import UnitPaths

SCHEMA = 1
ENDS = ("committed", "rolled_back", "rollback_failed", "host_action_required", "aborted")
# Set by systemd for one start; a release that held one would carry it into all others.
NEVER_SET = frozenset(("INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "SYSTEMD_EXEC_PID"))
_SHA = re.compile(r"[0-9a-f]{64}")


class ReleaseError(Exception):
    """A release that is missing, incomplete or not what its name says."""


def check(release: Mapping[str, Any]) -> None:
    """Raise ReleaseError, with one sentence, unless ``release`` can be started."""
    argv, env, unset, cwd = (release.get(name) for name in ("argv", "env_set", "env_unset", "cwd"))
    if release.get("schema") != SCHEMA:
        raise ReleaseError(f"a release has schema {release.get('schema')!r}; this host knows {SCHEMA}")
    if not (isinstance(argv, list) and argv and all(_word(word) for word in argv) and argv[0]):
        raise ReleaseError("a release needs an argv of words without NUL")
    if not (isinstance(env, dict) and all(_name(name) and _word(value) for name, value in env.items())):
        raise ReleaseError("a release's env_set must map names to text without NUL")
    if not (isinstance(unset, list) and all(_name(name) for name in unset)):
        raise ReleaseError("a release's env_unset must be a list of names")
    if not (_word(cwd) and os.path.isabs(str(cwd))):
        raise ReleaseError("a release's cwd must be an absolute path")
    taken = NEVER_SET.intersection(env).union(NEVER_SET.intersection(unset))
    if taken:
        raise ReleaseError(f"a release must leave {', '.join(sorted(taken))} to systemd")


def _word(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _name(value: object) -> bool:
    return _word(value) and bool(value) and "=" not in str(value)


def canonical(release: Mapping[str, Any]) -> bytes:
    """The bytes that are hashed and stored: keys sorted, no spaces, UTF-8."""
    body = {name: release[name] for name in ("argv", "cwd", "env_set", "salt", "schema") if name in release}
    body["env_unset"] = sorted(release["env_unset"])
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def name_of(release: Mapping[str, Any]) -> str:
    """The sha256 that names ``release``."""
    return hashlib.sha256(canonical(release)).hexdigest()


def put(paths: UnitPaths, release: Mapping[str, Any], meta: Mapping[str, Any], gid: int | None = None) -> str:
    """Store ``release`` (readable by root and the group ``gid``) with ``meta`` and give its name.

    A release that is there already keeps its meta. Raises ReleaseError and store.DiskFull.
    """
    check(release)
    if _holds_secret(release):
        release = {**release, "salt": salt(paths)}
    sha = name_of(release)
    with suppress(ReleaseError):
        read(paths, sha)
        return sha
    os.makedirs(paths.release_dir(sha), mode=0o755, exist_ok=True)
    store.write_json(paths.meta(sha), {"created": clock.wall(), **meta, "argv_sha256": argv_sha256(release["argv"])})
    store.atomic_write(paths.release(sha), canonical(release), 0o440, gid)
    store.fsync_dir(paths.releases)
    read(paths, sha)
    return sha


def argv_sha256(argv: Sequence[str]) -> str:
    """The hash by which a running command line is known again, from what everybody may read: its keys are left out."""
    # Imported here, since every start of the service waits for this module and needs none of it.
    from .redact import redact_argv

    return hashlib.sha256("\0".join(redact_argv(argv)).encode("utf-8", "surrogateescape")).hexdigest()


def _holds_secret(release: Mapping[str, Any]) -> bool:
    from .redact import is_secret, key_values

    return bool(key_values(release["argv"])) or any(is_secret(name) for name in release["env_set"])


def salt(paths: UnitPaths) -> str:
    """What makes the name of a release useless for guessing the key in it: names are public, this is root's.

    The same for all releases of the unit, so that the same release has the same name again.
    """
    found = known_salt(paths)
    if found is None:
        os.makedirs(paths.state, mode=0o755, exist_ok=True)
        store.atomic_write(paths.salt, f"{os.urandom(32).hex()}\n".encode(), 0o400)
        found = known_salt(paths) or ""
    return found


def known_salt(paths: UnitPaths) -> str | None:
    """The salt; None where there is none yet, or this login may not read it."""
    try:
        with open(paths.salt, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


def read(paths: UnitPaths, sha: str) -> dict[str, Any]:
    """The release named ``sha``, verified against its name. Raises ReleaseError."""
    if not _SHA.fullmatch(sha):
        raise ReleaseError(f"{sha[:80]!r} is not the name of a release")
    try:
        with open(paths.release(sha), "rb") as file:
            data = file.read()
        release = json.loads(data)
    except OSError as error:
        raise ReleaseError(f"release {sha[:12]} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ReleaseError(f"release {sha[:12]} is not JSON") from error
    if hashlib.sha256(data).hexdigest() != sha or not isinstance(release, dict):
        raise ReleaseError(f"release {sha[:12]} does not have the hash that its name says")
    release.pop("salt", None)
    check(release)
    return release


def meta(paths: UnitPaths, sha: str) -> dict[str, Any]:
    """What is written beside a release: profile, axes, created, by, expect, build, argv_sha256."""
    return store.read_json(paths.meta(sha)) or {}


def profile(paths: UnitPaths, sha: str | None) -> str | None:
    """The name of the profile that the release was made from, where that is known."""
    return meta(paths, sha).get("profile") if sha else None


def listed(paths: UnitPaths) -> list[dict[str, Any]]:
    """``{release, profile, axes, created}`` of every release, oldest first."""
    try:
        names = [name for name in os.listdir(paths.releases) if _SHA.fullmatch(name)]
    except OSError:
        return []
    found = []
    for name in names:
        about = meta(paths, name)
        found.append({"release": name, **{key: about.get(key) for key in ("profile", "axes", "created")}})
    return sorted(found, key=lambda entry: entry["created"] or 0)


def _target(link: str) -> str | None:
    try:
        name = os.path.basename(os.readlink(link))
    except OSError:
        return None
    return name if _SHA.fullmatch(name) else None


def stable(paths: UnitPaths) -> str | None:
    """The name that ``stable`` points at, whether or not that release can be read."""
    return _target(paths.stable)


def previous(paths: UnitPaths) -> str | None:
    """The name that ``previous`` points at, whether or not that release can be read."""
    return _target(paths.previous)


def set_stable(paths: UnitPaths, sha: str) -> None:
    store.swap_link(paths.stable, f"releases/{sha}")


def set_previous(paths: UnitPaths, sha: str) -> None:
    store.swap_link(paths.previous, f"releases/{sha}")


def quarantine(paths: UnitPaths, sha: str, record: Mapping[str, Any]) -> None:
    """Keep ``sha`` from being tried again, with the reason and the evidence in ``record``."""
    if not os.path.isdir(paths.quarantine_dir):
        os.makedirs(paths.quarantine_dir, mode=0o755, exist_ok=True)
        store.fsync_dir(paths.state)
    store.write_json(paths.quarantine(sha), {"at": clock.wall(), **record, "release": sha})


def quarantined(paths: UnitPaths, sha: str) -> dict[str, Any] | None:
    """Why ``sha`` may not be tried again, or None."""
    return store.read_json(paths.quarantine(sha))


def quarantine_names(paths: UnitPaths) -> list[str]:
    try:
        return sorted(name[:-5] for name in os.listdir(paths.quarantine_dir) if name.endswith(".json"))
    except OSError:
        return []


def history(paths: UnitPaths, limit: int | None = None) -> list[dict[str, Any]]:
    """The newest ``limit`` lines of the history, oldest first."""
    lines = store.read_lines(paths.history)
    return lines if limit is None else lines[max(0, len(lines) - limit) :]


def add_history(paths: UnitPaths, line: Mapping[str, Any]) -> bool:
    """Append one line with both clocks. An op that has its end already gets no second one; then False.

    The one exception: a rollback that was counted as done may still be found to have failed.
    """
    if line["event"] in ENDS:
        ends = [e["event"] for e in history(paths) if e.get("op") == line.get("op") and e.get("event") in ENDS]
        if ends and not (line["event"] == "rollback_failed" and ends[-1] in ("rolled_back", "aborted")):
            return False
    stamp = {"at": clock.wall(), "boottime": clock.boottime(), "boot_id": clock.boot_id()}
    store.append_line(paths.history, {**stamp, **line})
    return True


def envelope(paths: UnitPaths) -> list[dict[str, Any]]:
    """What was learned on this host of (architecture, build, axes), oldest first."""
    return store.read_lines(paths.envelope)


def add_envelope(paths: UnitPaths, entry: Mapping[str, Any]) -> bool:
    """Append one entry; a second one of the same op is left out, and then False."""
    op = entry.get("op")
    if op is not None and any(known.get("op") == op for known in envelope(paths)):
        return False
    store.append_line(paths.envelope, {"at": clock.wall(), **entry})
    return True
