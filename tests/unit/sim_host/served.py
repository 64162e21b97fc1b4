"""A whole embedded host in a process of its own, for tests (``python -m tests.unit.sim_host.served RUNTIME``)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import asyncssh

from ddtune.sim.descriptor import path_for
from ddtune.sim.host import EmbeddedHost
from ddtune.sim.procs import descendants

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Served:
    """A running host: the process that keeps it, what it published, and what runs below that process."""

    process: subprocess.Popen[bytes]
    published: Path
    found: dict[str, Any]

    def members(self) -> list[int]:
        return [pid for pid, _ in descendants(self.process.pid)]

    def login(self, **changed: Any) -> Any:
        options = {
            "host": self.found["host"],
            "port": self.found["port"],
            "username": self.found["user"],
            "client_keys": [self.found["identity"]],
            "known_hosts": self.found["known_hosts"],
            "config": None,
            "agent_path": None,
        }
        return asyncssh.connect(**{**options, **changed})


def start(runtime: Path, **env: str) -> Served:
    """Starts a host that publishes itself in ``runtime`` and ends with the process's standard input."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.sim_host.served", str(runtime)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
    )
    assert process.stdout is not None
    name = process.stdout.readline().decode().strip()
    published = path_for(runtime, name)
    return Served(process, published, json.loads(published.read_text()))


async def _serve(runtime: Path) -> None:
    async with EmbeddedHost(runtime) as host:
        host.publish()
        assert host.descriptor is not None
        assert asdict(host.descriptor)["pid"] == os.getpid()
        print(host.name, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
