"""What watching a real host shows and costs: the dashboard's picture, and the collector's own CPU."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from ddtune.config.resolve import resolve_host
from ddtune.live.hub import Hub
from ddtune.live.worker import Worker
from ddtune.tui.app import DdtuneApp
from ddtune.tui.desk import Desk
from tests.gpu.served import Served, wait

SIZES = ((160, 48), (80, 24))
SETTLE_S = 4.0
COST_S = 12.0
SHOT_S = 60.0


def collector_cost(host: Served) -> dict[str, Any]:
    """The collector's share of one core and its memory, read off /proc while a hub watches at its usual tick."""
    before = _loaders(host)
    with Worker() as worker:
        hub = Hub(resolve_host(host.name), worker)
        hub.start()
        try:
            wait("the collector runs", lambda: _loaders(host) - before, 30)
            time.sleep(SETTLE_S)
            (pid,) = _loaders(host) - before
            began, cpu = time.monotonic(), _cpu_s(pid)
            time.sleep(COST_S)
            took, used = time.monotonic() - began, _cpu_s(pid) - cpu
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        finally:
            hub.stop()
    rss = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return {"cpu_percent": round(100 * used / took, 2), "rss_mib": round(rss, 1), "measured_s": round(took, 1)}


def _loaders(host: Served) -> set[int]:
    """Processes on the host that were sent along by a login: the collector is the one of them that stays."""
    found = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            argv = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            env = Path(f"/proc/{entry}/environ").read_bytes()
            sent = argv[1:3] == [b"-I", b"-c"] and b"zlib" in argv[3]
            if sent and f"DDTUNE_SIM_ROOT={host.root}\0".encode() in env:
                found.add(int(entry))
    return found


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def screenshot(host: Served, folder: Path) -> list[str]:
    """The dashboard in each size as SVG, once it has seen GPUs and tokens."""
    return asyncio.run(_screenshot(host, folder))


async def _screenshot(host: Served, folder: Path) -> list[str]:
    desk = Desk(resolve_host(host.name), write=False)
    app = DdtuneApp(desk)
    kept = []
    try:
        async with app.run_test(size=SIZES[0]) as pilot:
            await _until(pilot, lambda: desk.view().snapshot.service.tokens_per_s)
            await asyncio.sleep(4)
            for width, height in SIZES:
                await pilot.resize_terminal(width, height)
                await pilot.pause(1.5)
                name = f"h200-{width}x{height}.svg"
                (folder / name).write_text(app.export_screenshot(title="ddtune"))
                kept.append(name)
    finally:
        await asyncio.to_thread(desk.stop)
    return kept


async def _until(pilot: Pilot[None], holds: Any) -> None:
    deadline = time.monotonic() + SHOT_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("the dashboard showed no tokens")
        await pilot.pause(0.2)
