"""``become UNIT``, as the service's user: turn into the engine that was chosen for this start."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from . import store
from .paths import Paths, UnitPaths, load_install


def main(args: list[str]) -> int:
    """Never returns where the engine could be executed; 1 otherwise."""
    paths = Paths(load_install().root).unit(args[0])
    try:
        become(chosen(paths, os.environ.get("INVOCATION_ID", "")) or _stable(paths))
    except OSError as error:
        print(f"<3>ddtune: {args[0]} cannot be started: {error}", file=sys.stderr)
    return 1


def chosen(paths: UnitPaths, invocation: str) -> dict[str, Any] | None:
    """What was chosen for exactly the start ``invocation``, or None."""
    found = store.read_json(paths.chosen)
    return found if found and invocation and found.get("invocation") == invocation else None


def _stable(paths: UnitPaths) -> dict[str, Any]:
    # Imported here, since every start waits for this program.
    from . import choose, releases

    print(f"<4>ddtune: nothing was chosen for this start of {paths.unit}; it runs stable", file=sys.stderr)
    try:
        return choose.with_base(paths, choose.stable_release(paths)[1])
    except releases.ReleaseError as error:
        raise OSError(str(error)) from error


def environment(release: dict[str, Any], block: bytes) -> dict[bytes, bytes]:
    """``block`` (as in /proc/self/environ) without what ``release`` unsets and with what it sets.

    What the service's own wrapper did comes before.
    """
    env = {}
    for entry in block.split(b"\0"):
        name, separator, value = entry.partition(b"=")
        if separator:
            env[name] = value
    for part in (release.get("base_env") or {}, release):
        for name in part.get("env_unset") or ():
            env.pop(os.fsencode(name), None)
        env.update({os.fsencode(name): os.fsencode(value) for name, value in (part.get("env_set") or {}).items()})
    return env


def become(release: dict[str, Any]) -> None:
    """Replace this process. Raises OSError when that cannot be done."""
    # Not os.environ: Python adds LC_CTYPE to it in a C locale, which systemd did not.
    with open("/proc/self/environ", "rb") as file:
        env = environment(release, file.read())
    os.chdir(release["cwd"])
    # Python ignores it, and an ignored signal stays so across exec. (SIGPIPE is ignored by systemd as well.)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(release["argv"][0], [os.fsencode(word) for word in release["argv"]], env)
