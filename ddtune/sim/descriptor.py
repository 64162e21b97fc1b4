"""The file that tells other commands of this user how to reach an embedded host."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Descriptor:
    """Everything that a host's configuration needs; ``pid`` is the process that keeps the host running."""

    name: str
    host: str
    port: int
    user: str
    identity: str
    known_hosts: str
    root: str
    unit: str
    api_port: int
    python: str
    simulated: bool
    clock_scale: float
    nvml_source: str
    pid: int


def path_for(runtime: Path, name: str) -> Path:
    """Where the descriptor of ``name`` lies."""
    return runtime / "demo" / f"{name}.json"


def write(descriptor: Descriptor, path: Path) -> None:
    """Publishes a host, readable by this user alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    whole = path.with_suffix(".new")
    whole.unlink(missing_ok=True)
    with os.fdopen(os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(descriptor), file, indent=1)
    whole.replace(path)


def remove(path: Path) -> None:
    """Takes a host back."""
    path.unlink(missing_ok=True)
