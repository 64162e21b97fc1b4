"""What every verb of the helper works with."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from . import inspect_process, store
from .paths import Install, Paths, UnitPaths
from .unit import Systemctl

Answer = dict[str, Any]


class RefusalError(Exception):
    """No, and why: ``cause`` is a class of docs/json.md, the text one sentence."""

    def __init__(self, cause: str, message: str, detail: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(message)
        self.cause = cause
        self.detail = dict(detail or {})


@dataclass(frozen=True)
class Host:
    """This host: its constants, its paths, its service manager."""

    install: Install
    paths: Paths
    systemctl: Systemctl

    @classmethod
    def of(cls, install: Install) -> Host:
        return cls(install, Paths(install.root), Systemctl(install))

    def adopted(self, unit: str) -> UnitPaths:
        """The unit's paths; refused as ``not_adopted`` where ddtune does not run the service."""
        paths = self.paths.unit(unit)
        if store.read_json(paths.site) is None:
            raise RefusalError("not_adopted", f"{unit} is not under ddtune on this host: adopt it first")
        return paths

    def running(self, unit: str) -> inspect_process.Process | None:
        """The unit's main process as /proc shows it, or None when there is none."""
        pid = self.systemctl.state(unit).main_pid
        return inspect_process.read_process(pid) if pid else None

    def adopted_units(self) -> list[str]:
        """The units that ddtune runs on this host."""
        return [name for name in self.paths.adopted() if store.read_json(self.paths.unit(name).site) is not None]


def group_id(user: str, group: str) -> int | None:
    """The group that may read releases: the unit's ``Group=``, else its user's own; None where we are not root.

    Raises ``RefusalError`` for a user or group that the host does not know.
    """
    if os.geteuid() != 0:
        return None
    try:
        if group:
            return int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
        if user:
            return (pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)).pw_gid
    except KeyError:
        raise RefusalError("unsupported_unit", f"the service's user {user} or group {group} does not exist") from None
    return 0
