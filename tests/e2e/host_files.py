"""Every path of a guest's configuration and state, to be compared with what it was before."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from pathlib import Path

from tests.e2e.guest import Guest

FOLDERS = ("/etc", "/usr/local", "/var/lib", "/run")
# What others than ddtune write while a guest runs, by pattern and why it says nothing of ddtune.
IGNORED = {
    "/run/systemd/*": "systemd's own memory of units, jobs, sessions and journal streams",
    "/run/user/*": "folders of logins, which logind makes and removes",
    "/run/user": "its time of change goes with the logins below it",
    "/run/dbus/*": "the bus daemon's socket and pid",
    "/run/log/*": "the journal before it moves to /var/log",
    "/run/sudo/*": "sudo's own record of the terminals that it was asked on",
    "/run/sudo": "made by the first call of sudo",
    "/var/lib/sudo/*": "sudo's record of users that it has lectured",
    "/run/utmp": "who is logged in",
    "/run/sglang/*": "what the simulated engine writes of its GPUs",
    "/run/sglang": "systemd makes it anew at each start of the service (RuntimeDirectory=)",
    "/run/sshd.pid": "sshd's pid",
    "/run/nologin": "systemd removes it when the boot is over",
    "/run/initctl": "systemd's socket",
    "/run/motd.dynamic*": "written by PAM at a login",
    "/var/lib/systemd/*": "systemd's timers, random seed and catalogue",
    "/var/lib/dbus/*": "the machine's id, made at the first boot",
    "/var/lib/private*": "systemd's folder of dynamic users",
    "/etc/machine-id": "made at the first boot",
    "/etc/.pwd.lock": "a lock of systemd-sysusers",
    "/usr/local/cuda-*": "gigabytes of the machine's own, read-only below the guest's overlay",
}
Entry = tuple[object, ...]


def snapshot(guest: Guest) -> dict[str, Entry]:
    """Kind, mode, owner, and content or target, of each path that is not ignored."""
    root = guest.file("")
    found: dict[str, Entry] = {}
    for top in FOLDERS:
        for folder, names, files in os.walk(f"{root}{top}"):
            names[:] = [name for name in names if not ignored(_inside(root, f"{folder}/{name}"))]
            for name in [".", *names, *files]:
                path = folder if name == "." else f"{folder}/{name}"
                inside = _inside(root, path)
                if not ignored(inside):
                    found[inside] = _entry(path)
    return found


def ignored(path: str) -> str | None:
    """Why ``path`` is not compared; None when it is."""
    return next((why for pattern, why in IGNORED.items() if fnmatch.fnmatchcase(path, pattern)), None)


def changes(before: dict[str, Entry], after: dict[str, Entry]) -> list[str]:
    """One line for each path that came, went or is not what it was."""
    return [
        f"{path}: {before.get(path)} -> {after.get(path)}"
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    ]


def _inside(root: Path, path: str) -> str:
    return path.removeprefix(str(root))


def _entry(path: str) -> Entry:
    status = os.lstat(path)
    about = (stat.S_IFMT(status.st_mode), oct(stat.S_IMODE(status.st_mode)), status.st_uid, status.st_gid)
    if stat.S_ISLNK(status.st_mode):
        return (*about, os.readlink(path))
    if stat.S_ISREG(status.st_mode):
        return (*about, hashlib.sha256(Path(path).read_bytes()).hexdigest())
    return about
