"""Where everything lies on the host, under a root prefix that is empty on a real one.

Every start of the service waits for this module, so it does without dataclasses, which are slow to import.
"""

from __future__ import annotations

import json
import os
import sys
from typing import NamedTuple

PROTO = 1
CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")
"""Where systemd's tree of cgroups may be mounted: alone, beside the controllers' of version 1, or as a hybrid's."""


class Install(NamedTuple):
    """Constants rendered at installation, read beside the running file; ``pyz`` is that file."""

    proto: int = PROTO
    root: str = ""
    python: str = "/usr/bin/python3"
    systemctl: str = "/usr/bin/systemctl"
    systemd_run: str = "/usr/bin/systemd-run"
    journalctl: str = "/usr/bin/journalctl"
    pyz: str = "/usr/local/lib/ddtune/1/ddtune-onhost.pyz"


def load_install(beside: str | None = None) -> Install:
    """The constants in ``install.json`` beside ``beside`` (default: the running file), or those of a real host."""
    pyz = os.path.abspath(beside or sys.argv[0])
    try:
        with open(os.path.join(os.path.dirname(pyz), "install.json"), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return Install()
    return Install(**{**{name: value for name, value in found.items() if name in Install._fields}, "pyz": pyz})


class UnitPaths(NamedTuple):
    """The files of one unit. ``state`` outlives a reboot, ``run`` does not."""

    root: str
    unit: str

    @property
    def state(self) -> str:
        return f"{self.root}/var/lib/ddtune/{self.unit}"

    @property
    def run(self) -> str:
        return f"{self.root}/run/ddtune/{self.unit}"

    def _state(self, name: str) -> str:
        return f"{self.state}/{name}"

    def _run(self, name: str) -> str:
        return f"{self.run}/{name}"

    @property
    def releases(self) -> str:
        return self._state("releases")

    def release_dir(self, sha: str) -> str:
        return f"{self.releases}/{sha}"

    def release(self, sha: str) -> str:
        return f"{self.releases}/{sha}/release.json"

    def meta(self, sha: str) -> str:
        return f"{self.releases}/{sha}/meta.json"

    @property
    def evidence(self) -> str:
        return self._state("evidence")

    @property
    def stable(self) -> str:
        return self._state("stable")

    @property
    def previous(self) -> str:
        return self._state("previous")

    @property
    def base(self) -> str:
        return self._state("base.json")

    @property
    def salt(self) -> str:
        return self._state("salt")

    @property
    def unit_files(self) -> str:
        """What is known of the unit's own files since its adoption, as hashes."""
        return self._state("unit-files.json")

    @property
    def site(self) -> str:
        return self._state("site.json")

    @property
    def probation(self) -> str:
        return self._state("probation.json")

    @property
    def quarantine_dir(self) -> str:
        return self._state("quarantine")

    def quarantine(self, sha: str) -> str:
        return f"{self.quarantine_dir}/{sha}.json"

    @property
    def golden_dir(self) -> str:
        return self._state("golden")

    @property
    def envelope(self) -> str:
        return self._state("envelope.jsonl")

    @property
    def watch(self) -> str:
        """Who watches the unit headless, and when that was last heard of."""
        return self._state("watch.json")

    @property
    def history(self) -> str:
        return self._state("history.jsonl")

    @property
    def lock(self) -> str:
        return self._run("lock")

    @property
    def txn(self) -> str:
        return self._run("txn.json")

    @property
    def trial(self) -> str:
        return self._run("trial")

    @property
    def chosen(self) -> str:
        return self._run("chosen")

    @property
    def ended(self) -> str:
        return self._run("ended.json")

    @property
    def processes(self) -> str:
        return self._run("processes.json")

    @property
    def guard(self) -> str:
        return self._run("guard.json")

    @property
    def guard_lock(self) -> str:
        return self._run("guard.lock")

    @property
    def guard_copy(self) -> str:
        return self._run("guard.txn.json")

    @property
    def canary(self) -> str:
        return self._run("canary.json")

    @property
    def canary_lock(self) -> str:
        return self._run("canary.lock")

    @property
    def held(self) -> str:
        return self._run("held.json")

    @property
    def drop_in_dir(self) -> str:
        return f"{self.root}/etc/systemd/system/{self.unit}.d"

    @property
    def drop_in(self) -> str:
        return f"{self.drop_in_dir}/zz-ddtune.conf"

    @property
    def drain_hook(self) -> str:
        """The host's own program that is run before a stop, where there is one."""
        return f"{self.root}/etc/ddtune/{self.unit}/drain"

    def ensure_run(self) -> None:
        """Make the volatile folder, which a reboot took away."""
        os.makedirs(self.run, mode=0o755, exist_ok=True)


class Paths(NamedTuple):
    """All paths under ``root``."""

    root: str = ""

    def unit(self, unit: str) -> UnitPaths:
        return UnitPaths(self.root, unit)

    def adopted(self) -> list[str]:
        """The units that ddtune has, sorted; none where the folder cannot be read."""
        try:
            names = sorted(os.listdir(self.state))
        except OSError:
            return []
        return [name for name in names if os.path.exists(self.unit(name).site)]

    @property
    def state(self) -> str:
        return f"{self.root}/var/lib/ddtune"

    @property
    def run(self) -> str:
        return f"{self.root}/run/ddtune"

    @property
    def lib(self) -> str:
        return f"{self.root}/usr/local/lib/ddtune/{PROTO}"

    @property
    def pyz(self) -> str:
        return f"{self.lib}/ddtune-onhost.pyz"

    @property
    def install(self) -> str:
        return f"{self.lib}/install.json"

    @property
    def helper(self) -> str:
        return f"{self.root}/usr/local/libexec/ddtune-host"

    @property
    def viewer(self) -> str:
        """The helper for logins that may only look."""
        return f"{self.helper}-ro"

    @property
    def rollback(self) -> str:
        return f"{self.root}/usr/local/sbin/ddtune-rollback"

    @property
    def made(self) -> str:
        """The folders that the installation had to make, one a line, so that just these can go again."""
        return f"{self.lib}/made"

    @property
    def sudoers(self) -> str:
        return f"{self.root}/etc/sudoers.d/ddtune"

    @property
    def units(self) -> str:
        return f"{self.root}/etc/systemd/system"

    @property
    def ended_service(self) -> str:
        return f"{self.units}/ddtune-ended@.service"
