"""The host's own programs that ddtune runs as root, and where they are; no PATH that somebody set says so."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Optional

from .paths import Install, Paths

_NFT = ("/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft")
_NVIDIA_SMI = ("/usr/local/bin/nvidia-smi", "/usr/bin/nvidia-smi", "/bin/nvidia-smi")


def nft(root: str) -> Optional[str]:
    """The program of nftables below ``root``; None where there is none."""
    return _first([root + place for place in _NFT])


def nvidia_smi() -> Optional[str]:
    """The driver's program; None where there is none."""
    return _first(_NVIDIA_SMI)


def run_as_root(install: Install) -> list[str]:
    """Every program that root runs for ddtune on this host beside ddtune's own: the shell is that of the helpers."""
    paths = Paths(install.root)
    hooks = [hook for unit in paths.adopted() if os.path.lexists(hook := paths.unit(unit).drain_hook)]
    found = [nft(install.root), nvidia_smi(), *hooks]
    tools = [install.python, install.systemctl, install.systemd_run, install.journalctl, "/bin/sh"]
    return [*tools, *(path for path in found if path)]


def _first(places: Sequence[str]) -> Optional[str]:
    return next((place for place in places if os.access(place, os.X_OK)), None)
