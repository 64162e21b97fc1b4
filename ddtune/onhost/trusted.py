"""Who but root could change what runs as root: judged by owner and mode of each folder and link on the way to it."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import Optional

_LINKS = 40
SEARCHED = "/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of the helpers: sudo hands on that of who calls it where sudoers has no secure_path."""


def weak(path: str) -> list[str]:
    """Why ``path`` itself could be changed by others, as sentences; nothing of what is not there."""
    try:
        status = os.lstat(path)
    except OSError:
        return []
    if status.st_uid not in (0, os.geteuid()):
        return [f"{path} belongs to user {status.st_uid}, who could change what runs as root"]
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if stat.S_ISLNK(status.st_mode) or sticky or not _written_by_others(path, status):
        return []
    return [f"{path} can be written by others than its owner: chmod go-w {shlex.quote(path)}"]


def _written_by_others(path: str, status: os.stat_result) -> bool:
    if not status.st_mode & 0o020 or status.st_mode & 0o002:
        return bool(status.st_mode & 0o002)
    if status.st_gid not in (0, os.getegid()):
        return True
    try:
        # Where there is one, the group's bits are what any user of the list may have at most.
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except OSError:
        return False


def way(path: str, known: Optional[dict[str, str]] = None) -> Iterator[str]:
    """Each folder and link on the way to ``path``, in all spellings that links lead to, and what lies at its end.

    ``known`` keeps where each step leads, so that many paths of one folder cost little more than one.
    """
    known = {} if known is None else known
    at, rest, links = "/", _names(path), 0
    while rest:
        name = rest.pop()
        if name == "..":
            at = os.path.dirname(at)
            continue
        step = os.path.join(at, name)
        yield step
        if step not in known:
            known[step] = _target(step)
        target = known[step]
        if not target:
            at = step
            continue
        links += 1
        if links > _LINKS:
            return
        at = "/" if target.startswith("/") else at
        rest += _names(target)


def _target(step: str) -> str:
    """Where a link leads; nothing for what is none."""
    try:
        return os.readlink(step)
    except OSError:
        return ""


def _names(path: str) -> list[str]:
    """The parts of ``path``, the first one last."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def judged(paths: Iterable[str], below: str = "") -> list[str]:
    """Sentences about every step to ``paths`` that lies under ``below``, each step once."""
    found: dict[str, list[str]] = {}
    known: dict[str, str] = {}
    for path in paths:
        for step in way(path, known):
            if step in found or not step.startswith(f"{below}/"):
                continue
            found[step] = weak(step)
            if found[step] and step != path:
                found[step] = [f"{text} (root runs {path})" for text in found[step]]
    return [text for texts in found.values() for text in texts]


def loaded() -> list[str]:
    """What this very interpreter was loaded from: itself, its folders, what it runs at each start, its modules."""
    files = [sys.executable, os.path.join(sys.prefix, "pyvenv.cfg")]
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        files += [path for path in (getattr(spec, "origin", None), getattr(spec, "cached", None)) if path]
    files += [*sys.path, *(path for folder in sys.path for path in at_each_start(folder))]
    # Our own programs are judged as files of theirs.
    return [path for path in files if os.path.isabs(path) and not path.startswith(sys.argv[0])]


def at_each_start(folder: str) -> list[str]:
    """The files of a folder of modules that an interpreter runs by itself, also with ``-I``."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [f"{folder}/{name}" for name in names if name.endswith(".pth") or name.startswith("sitecustomize.")]
