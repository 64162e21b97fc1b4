"""Durable files: whoever reads sees the old content or the new one, also after a power cut."""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from .paths import UnitPaths

_serial = itertools.count()


class DiskFull(Exception):  # noqa: N818 (it names the state of the host)
    """No space or inodes left for ``path``; nothing that was there has changed."""

    def __init__(self, path: str) -> None:
        super().__init__(f"no space left on the host to write {path}")
        self.path = path


class LockTimeoutError(Exception):
    """Someone else held the lock for the whole of the time limit."""


@contextmanager
def _full_disk(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(path) from error
        raise


def fsync_dir(path: str) -> None:
    """Make renames and removals in the folder ``path`` durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _beside(path: str) -> str:
    return f"{path}.tmp.{os.getpid()}"


def stage(path: str, data: bytes, mode: int = 0o644, gid: int | None = None) -> str:
    """Write ``data`` durably beside ``path`` and give that file's name: what is left is a rename, which needs no space.

    Raises DiskFull, and then nothing is left behind.
    """
    temp = f"{_beside(path)}.{next(_serial)}"
    with _full_disk(path):
        try:
            fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(fd, view) :]
                if gid is not None:
                    os.fchown(fd, -1, gid)
                os.fchmod(fd, mode)
                os.fsync(fd)
            finally:
                os.close(fd)
        except BaseException:
            discard(temp)
            raise
    return temp


def publish(temp: str, path: str) -> None:
    """Put a staged file in its place durably."""
    with _full_disk(path):
        try:
            os.rename(temp, path)
        except BaseException:
            discard(temp)
            raise
        fsync_dir(os.path.dirname(path))


def discard(temp: str) -> None:
    """Throw a staged file away."""
    with suppress(OSError):
        os.unlink(temp)


def sweep(path: str) -> None:
    """Remove what a program that was killed has staged beside ``path`` and never put in its place."""
    folder, name = os.path.split(path)
    with suppress(OSError):
        for entry in os.listdir(folder):
            pid = entry[len(name) + len(".tmp.") :].partition(".")[0] if entry.startswith(f"{name}.tmp.") else ""
            if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                discard(f"{folder}/{entry}")


def atomic_write(path: str, data: bytes, mode: int = 0o644, gid: int | None = None) -> None:
    """Replace ``path`` by ``data`` durably. Raises DiskFull, and then the old content stands."""
    publish(stage(path, data, mode, gid), path)


def to_bytes(value: Mapping[str, Any]) -> bytes:
    """``value`` as one line of JSON."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def write_json(path: str, value: Mapping[str, Any], mode: int = 0o644, gid: int | None = None) -> None:
    """Replace ``path`` by ``value`` as JSON, as :func:`atomic_write` does."""
    atomic_write(path, to_bytes(value), mode, gid)


def read_json(path: str) -> dict[str, Any] | None:
    """The JSON object in ``path``; None when it is missing, unreadable or not an object."""
    try:
        with open(path, "rb") as file:
            return parse_object(file.read())
    except OSError:
        return None


def parse_object(raw: bytes) -> dict[str, Any] | None:
    """The JSON object in ``raw``; None when it is none."""
    try:
        value = json.loads(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def swap_link(path: str, target: str) -> None:
    """Point the symbolic link ``path`` at ``target`` by one rename."""
    temp = _beside(path)
    with _full_disk(path):
        with suppress(FileNotFoundError):
            os.unlink(temp)
        os.symlink(target, temp)
        os.rename(temp, path)
        fsync_dir(os.path.dirname(path))


def remove(path: str) -> None:
    """Remove ``path`` durably; nothing happens when it is not there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    fsync_dir(os.path.dirname(path))


def append_line(path: str, value: Mapping[str, Any]) -> None:
    """Append ``value`` as one JSON line, durably; a line that a power cut left torn is closed first."""
    line = to_bytes(value)
    with _full_disk(path):
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                line = b"\n" + line
            if os.write(fd, line) != len(line):
                os.ftruncate(fd, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            os.fsync(fd)
        finally:
            os.close(fd)
        if not size:
            fsync_dir(os.path.dirname(path))


def read_lines(path: str) -> list[dict[str, Any]]:
    """The JSON objects of a file of lines, oldest first; torn lines are left out, a missing file is empty."""
    try:
        with open(path, "rb") as file:
            raw = file.read().splitlines()
    except OSError:
        return []
    found = []
    for line in raw:
        with suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict):
                found.append(value)
    return found


def try_lock(path: str, limit_s: float, shared: bool = False) -> int | None:
    """A descriptor that holds the flock of ``path``, or None when it stayed taken for ``limit_s``.

    Closing the descriptor gives the lock back, and so does the end of the process.
    """
    flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
    fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
    until = time.monotonic() + limit_s
    while True:
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return fd
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                os.close(fd)
                raise
        if time.monotonic() >= until:
            os.close(fd)
            return None
        time.sleep(0.005)


@contextmanager
def locked(paths: UnitPaths, limit_s: float = 10.0) -> Iterator[None]:
    """Hold the unit's lock. Raises LockTimeoutError after ``limit_s`` seconds, so that no start ever hangs on it."""
    paths.ensure_run()
    fd = try_lock(paths.lock, limit_s)
    if fd is None:
        raise LockTimeoutError(f"another program holds {paths.lock}")
    try:
        yield
    finally:
        os.close(fd)
