"""A service manager of the embedded host alone, for tests, as a process of its own (``python manager.py ROOT``)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ddtune.sim import hostd, layout
from ddtune.sim.children import Children
from ddtune.sim.settings import Settings

DEADLINE_S = 15.0
T = TypeVar("T")


def until(look: Callable[[], T], wanted: Callable[[T], bool] = bool) -> T:
    """What ``look`` gives as soon as it is ``wanted``."""
    deadline = time.monotonic() + DEADLINE_S
    while not wanted(found := look()):
        assert time.monotonic() < deadline, f"still {found!r}"
        time.sleep(0.02)
    return found


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class Manager:
    """The stand-ins of one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.units = root / "etc/systemd/system"

    def run(self, program: str, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        argv = [str(self.root / "usr/bin" / program), *args]
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=DEADLINE_S, check=False)
        assert not check or done.returncode == 0, f"{argv}: {done.returncode} {done.stderr}"
        return done

    def systemctl(self, *args: str) -> str:
        return self.run("systemctl", *args).stdout

    def show(self, unit: str) -> dict[str, str]:
        lines = self.systemctl("--no-pager", "show", unit).splitlines()
        return dict(line.partition("=")[::2] for line in lines)

    def reach(self, unit: str, **wanted: str) -> dict[str, str]:
        """The unit's properties once they are as wanted."""
        return until(lambda: self.show(unit), lambda props: all(props[key] == wanted[key] for key in wanted))

    def journal(self, unit: str, *more: str) -> list[str]:
        out = self.run("journalctl", "--no-pager", "-o", "json", "-u", unit, *more).stdout
        return [json.loads(line)["MESSAGE"] for line in out.splitlines()]

    def unit(self, name: str, service: str, unit: str = "", *, wanted: bool = True) -> None:
        """Writes a unit file and has it read."""
        install = "[Install]\nWantedBy=multi-user.target\n" if wanted else ""
        (self.units / name).write_text(f"[Unit]\n{unit}\n[Service]\n{service}\n{install}")
        self.systemctl("daemon-reload")

    def script(self, name: str, text: str) -> Path:
        """An executable shell script."""
        path = self.root / "tmp" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path


async def _serve(root: Path) -> None:
    layout.make_bare(root)
    Children()
    async with hostd.services(root, Settings()):
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def start(root: Path) -> tuple[Manager, subprocess.Popen[bytes]]:
    """A manager in ``root``, which ends when the process's standard input does."""
    argv: Sequence[str] = [sys.executable, "-m", "tests.unit.sim_host.manager", str(root)]
    here = Path(__file__).parents[3]
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=here, env={**os.environ, "PYTHONPATH": str(here)}
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return Manager(root), process


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
