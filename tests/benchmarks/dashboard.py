"""What the dashboard costs its operator, beside ``sgtop`` on the same engine at the same time, in a real tmux.

``python -m tests.benchmarks.dashboard [--seconds 60] [--minutes 10] [--hours 2]`` from the root of the repository.
The live screen at 160×48 with all its charts reads eight GPUs twice a second under load; CPU is of the whole process
tree, counted by the kernel in nanoseconds. ``sgtop`` is measured where its command is installed. Resident memory is
read at the end of the measured seconds and after so many minutes; ``--hours`` of sampled time are then put through the
same state, series and screen as fast as they go.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.config.resolve import resolve_host
from ddtune.live.hub import Hub
from ddtune.live.picture import snapshot
from ddtune.live.reduce import reduce
from ddtune.live.series import Series
from ddtune.live.state import State
from ddtune.live.worker import Worker
from ddtune.tui.app import DdtuneApp
from ddtune.tui.view import View
from tests.tui.embedded import ROOT, serving
from tests.tui.fakes import FakeDesk, moment

SIZE = (160, 48)
HZ = 2.0
SETTLE_S = 15.0
START_S = 60.0
CAUGHT_S = 10.0
TRAFFIC = "32"
EVERY_N = 4
"""Of how many sampled ticks one is painted."""


@dataclass(frozen=True)
class Cost:
    """``cpu_percent`` is of one core, over the whole tree; ``rss_mib`` at the end."""

    name: str
    seconds: float
    cpu_percent: float
    rss_mib: float


class Terminals:
    """A tmux server of its own."""

    def __init__(self, folder: Path) -> None:
        self._base = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]

    def open(self, name: str, argv: list[str], env: Mapping[str, str]) -> int:
        """Run a command in a terminal of its own; its process id."""
        size = ["-x", str(SIZE[0]), "-y", str(SIZE[1])]
        given = [part for key, value in env.items() for part in ("-e", f"{key}={value}")]
        self._run("new-session", "-d", "-s", name, *size, *given, "-c", str(ROOT), "--", *argv)
        return int(self._run("list-panes", "-t", name, "-F", "#{pane_pid}"))

    def seen(self, name: str) -> str:
        """What is on its screen."""
        return self._run("capture-pane", "-p", "-t", name)

    def until(self, name: str, text: str) -> None:
        """Wait until a text is on its screen."""
        deadline = time.monotonic() + START_S
        while text not in self.seen(name):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{text!r} never came:\n{self.seen(name)}")
            time.sleep(0.2)

    def close(self) -> None:
        subprocess.run([*self._base, "kill-server"], check=False, capture_output=True)

    def _run(self, *argv: str) -> str:
        return subprocess.run([*self._base, *argv], check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def terminals(folder: Path) -> Iterator[Terminals]:
    one = Terminals(folder)
    try:
        yield one
    finally:
        one.close()


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [two for child in (task / "children").read_text().split() for two in tree(int(child))]
    return found


def cpu_s(pids: list[int]) -> float:
    """Seconds on a CPU of all threads, as the scheduler counts them."""
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def rss_mib(pids: list[int]) -> float:
    """Resident memory of a tree."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(names: Mapping[str, int], seconds: float) -> list[Cost]:
    """All trees in the same seconds."""
    trees = {name: tree(pid) for name, pid in names.items()}
    before = {name: cpu_s(pids) for name, pids in trees.items()}
    began = time.monotonic()
    time.sleep(seconds)
    spent = time.monotonic() - began
    return [
        Cost(name, round(spent, 1), round(100 * (cpu_s(pids) - before[name]) / spent, 2), round(rss_mib(pids), 1))
        for name, pids in trees.items()
    ]


def beside(host: str, folder: Path, seconds: float, minutes: float) -> dict[str, Any]:
    """ddtune and, where there is one, sgtop on the same engine."""
    config = resolve_host(host)
    env = {name: os.environ[name] for name in ("XDG_RUNTIME_DIR", "DDTUNE_RUNTIME_DIR", "PATH") if name in os.environ}
    with terminals(folder) as shown:
        ddtune = [sys.executable, "-m", "ddtune.cli.main", "connect", host, "--every", str(1 / HZ)]
        began = time.monotonic()
        names = {"ddtune": shown.open("ddtune", ddtune, env)}
        shown.until("ddtune", "host or latency")
        first_s = time.monotonic() - began
        sgtop = shutil.which("sgtop") or shutil.which("sgtop", path=str(Path(sys.executable).parent))
        if sgtop:
            names["sgtop"] = shown.open("sgtop", [sgtop, "--port", str(config.api_port), "--no-full-scan"], env)
            shown.until("sgtop", "concurrency")
        time.sleep(SETTLE_S)
        costs = measure(names, seconds)
        screen = shown.seen("ddtune")
        later = None
        if minutes:
            time.sleep(max(0.0, minutes * 60 - (time.monotonic() - began)))
            later = round(rss_mib(tree(names["ddtune"])), 1)
    return {
        "load_average": os.getloadavg(),
        "verdict_after_s": round(first_s, 1),
        "costs": [asdict(one) for one in costs],
        "rss_mib_after_minutes": {str(minutes): later},
        "screen": screen.splitlines()[:14],
    }


def caught(config: HostConfig) -> list[dict[str, Any]]:
    """Some seconds of what the collector of a host says."""
    lines: list[dict[str, Any]] = []
    with Worker() as worker:
        hub = Hub(config, worker, 1 / HZ, tap=lambda line, at: lines.append({"came": at, **line}))
        hub.start()
        time.sleep(CAUGHT_S)
        hub.stop()
    return [line for line in lines if line["t"] != "link"]


async def sampled(lines: list[dict[str, Any]], hours: float) -> dict[str, float]:
    """Resident memory after a twentieth, a half and all of the sampled time, by the hour."""
    began = lines[0]["came"]
    length_s = lines[-1]["came"] - began + 1 / HZ
    state = State("b300", simulated=True, tick_s=1 / HZ)
    series, found, base = Series(), {}, moment()
    desk = FakeDesk(View(base.snapshot, 0.0, profiles=base.profiles, series=series, envelope=base.envelope))
    marks = [hours / 20, hours / 2, hours]
    app = DdtuneApp(desk)  # type: ignore[arg-type]  # a desk without a host
    async with app.run_test(size=SIZE) as pilot:
        number = passed = 0
        while marks:
            passed_s = passed * length_s
            for line in lines:
                at = line["came"] + passed_s
                state = reduce(state, {**line, "at": float(line.get("at") or 0.0) + passed_s}, at)
                if line["t"] != "gpus":
                    continue
                one = snapshot(state, at)
                series.take(one)
                number += 1
                if number % EVERY_N == 0:
                    desk.move(snapshot=one)
                    await pilot.pause(0)
            passed += 1
            if passed_s >= marks[0] * 3600:
                found[f"{marks.pop(0):g}"] = round(rss_mib([os.getpid()]), 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--hours", type=float, default=2.0)
    asked = parser.parse_args()
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"ddtune-bench-{os.getpid()}"
    folder.mkdir(mode=0o700)
    try:
        with serving(1, DDTUNE_SIM_TRAFFIC=TRAFFIC) as host:
            found = beside(host, folder, asked.seconds, asked.minutes)
            lines = caught(resolve_host(host)) if asked.hours else []
        if asked.hours:
            found["rss_mib_after_sampled_hours"] = asyncio.run(sampled(lines, asked.hours))
    finally:
        shutil.rmtree(folder)
    print(json.dumps(found, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
