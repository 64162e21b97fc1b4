"""Running a command as the service's own user."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Optional


class RunError(Exception):
    """The command could not be started or did not end in time; the text says which."""


def start_as(argv: Sequence[str], cwd: str, env: Mapping[str, str], user: Optional[str]) -> subprocess.Popen[bytes]:
    """``argv`` in a session of its own with three pipes, as ``user`` where we are root. Raises ``RunError``."""
    options: dict[str, Any] = {}
    if user and os.geteuid() == 0:
        entry = account(user)
        groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
        options = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": groups}
    try:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            **options,
        )
    except (OSError, ValueError) as error:
        raise RunError(f"{argv[0]} could not be started: {error}") from None


def account(user: str) -> pwd.struct_passwd:
    """The account of a user by name or number. Raises ``RunError``."""
    try:
        return pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
    except KeyError:
        raise RunError(f"the service's user {user} does not exist") from None


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends it with whatever it started in its own session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_as(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], user: Optional[str], limit_s: float, stdin: bytes = b""
) -> tuple[int, bytes, bytes]:
    """Exit status, output and errors of ``argv``, run as ``user`` where we are root and ended after ``limit_s``.

    Whatever it started in its own session ends with it. Raises ``RunError``.
    """
    process = start_as(argv, cwd, env, user)
    try:
        out, err = process.communicate(stdin, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise RunError(f"{' '.join(argv[:4])} … did not end within {limit_s:g} s") from None
    finally:
        end(process)
    return process.returncode, out, err
