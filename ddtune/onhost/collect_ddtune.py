"""What ddtune itself knows on this host, from files that all may read: the transaction, stable, what runs by name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Optional

from . import canary_mark, clock, releases, unit_files
from .paths import UnitPaths
from .store import read_json

_HISTORY = 20


class Ddtune:
    """Lines of kind ``ddtune``."""

    def __init__(self, paths: UnitPaths) -> None:
        self._paths = paths
        self._metas: dict[str, dict[str, Any]] = {}
        self._files = unit_files.Look(paths)

    def line(self, argv: Sequence[str], invocation: str) -> dict[str, Any]:
        """``argv`` is the main process's whole command line; it names the release that runs."""
        paths = self._paths
        site = read_json(paths.site)
        # Long, and of no use to who watches.
        (site or {}).pop("site_dialect", None)
        txn = read_json(paths.txn)
        stable = releases.stable(paths)
        return {
            "t": "ddtune",
            "at": clock.wall(),
            "boottime": clock.boottime(),
            "adopted": site is not None,
            "stable": self._named(stable),
            "previous": self._named(releases.previous(paths)),
            "txn": txn,
            "probation": read_json(paths.probation),
            "site": site,
            "running": self._named(self._running(argv, invocation, stable, txn)),
            "history": releases.history(paths, _HISTORY),
            "watch": read_json(paths.watch),
            "quarantine": releases.quarantine_names(paths),
            "launched": self._launched(invocation) if site is not None and argv else None,
            "canary": canary_mark.read(paths),
            "outside": [change.text for change in self._files.changed()],
        }

    def _launched(self, invocation: str) -> Optional[bool]:
        """Whether the launcher made this start; None for who may not read what it chose."""
        if not os.path.lexists(self._paths.chosen):
            return False
        chosen = read_json(self._paths.chosen)
        return None if chosen is None else chosen.get("invocation") == invocation

    def _running(
        self, argv: Sequence[str], invocation: str, stable: Optional[str], txn: Optional[dict[str, Any]]
    ) -> Optional[str]:
        if not argv:
            return None
        digest = releases.argv_sha256(argv)
        names = [entry["release"] for entry in releases.listed(self._paths)]
        matching = [name for name in names if self._meta(name).get("argv_sha256") == digest]
        # Releases that differ in their environment alone share a command line; then what was started decides.
        chosen = read_json(self._paths.chosen) or {}
        started = [chosen.get("release")] if chosen.get("invocation") == invocation else []
        if txn and txn.get("trial_invocation") == invocation:
            started.append(txn.get("candidate"))
        for name in [*started, stable]:
            if name in matching:
                return name
        return matching[0] if matching else None

    def _named(self, release: Optional[str]) -> Optional[dict[str, Any]]:
        if release is None:
            return None
        meta = self._meta(release)
        return {"release": release, "profile": meta.get("profile"), "meta": meta}

    def _meta(self, release: str) -> dict[str, Any]:
        # A release never changes once it is there.
        if release not in self._metas:
            meta = releases.meta(self._paths, release)
            if not meta:
                return {}
            self._metas[release] = meta
        return self._metas[release]
