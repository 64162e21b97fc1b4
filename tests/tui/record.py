"""Records tests/tui/data from an embedded host: ``python -m tests.tui.record`` (about five minutes)."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ddtune.config.model import HostConfig
from ddtune.config.resolve import resolve_host
from ddtune.tui.desk import Desk
from ddtune.tui.view import View
from tests.tui.embedded import serving
from tests.tui.gate import Gate
from tests.tui.recorded import DATA, write

WAIT_S = 120.0


CHARTS_S = 150.0


def main() -> None:
    DATA.mkdir(exist_ok=True)
    with serving(speed=20) as name:
        config = resolve_host(name)
        withheld = Path(config.root) / "run/sim/withheld.json"
        with watched(config) as desk:
            time.sleep(CHARTS_S)
            keep("live", desk.view())
            write("refused", desk.plan("switch", "b12").result(WAIT_S))
            plan = desk.plan("switch", "b16-eager").result(WAIT_S)
            write("plan", plan)
            desk.carry_out(plan)
            wait(lambda: len([one for one in run(desk).steps if one.progress.check]) > 6)
            keep("progress", desk.view())
            desk.abort()
            wait(lambda: not desk.running)
            desk.carry_out(desk.plan("switch", "b12", force=True).result(WAIT_S))
            wait(lambda: not desk.running)
            time.sleep(2)
            keep("rolled-back", desk.view())
            withheld.write_text(json.dumps({"lost": [5]}))
            wait(lambda: any(gpu.lost for gpu in desk.view().snapshot.gpus))
            time.sleep(3)
            keep("gpu-lost", desk.view())
        for state, missing in (("no-gpm", "gpm"), ("no-metrics", "metrics"), ("no-permission", "journal")):
            withheld.write_text(json.dumps({missing: False}))
            with watched(config, rates=missing != "metrics") as desk:
                time.sleep(8)
                keep(state, desk.view())
        withheld.unlink()
        with tempfile.TemporaryDirectory() as folder, Gate(config, Path(folder)) as gate, watched(gate.config) as desk:
            time.sleep(5)
            gate.shut()
            wait(lambda: (desk.view().snapshot.ages.gpus or 0) > 1.5)
            wait(lambda: desk.view().snapshot.link.state == "lost")
            wait(lambda: (desk.view().snapshot.ages.gpus or 0) > 8)
            keep("link-lost", desk.view())


@contextmanager
def watched(config: HostConfig, *, rates: bool = True) -> Iterator[Desk]:
    """A desk with readings in it."""
    desk = Desk(config, write=True)
    try:
        desk.start(lambda: None)
        wait(lambda: len(desk.view().snapshot.gpus) == 8)
        wait(lambda: not rates or desk.view().snapshot.service.ttft_p50_s is not None)
        yield desk
    finally:
        desk.stop()


def run(desk: Desk):
    return desk.view().run


def wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def keep(name: str, view: View) -> None:
    """A view with fewer log lines and profiles, so that the files stay small, and nothing of this machine's paths."""
    known = {one: view.profiles[one] for one in ("b8-nvls", "b12", "b16-eager", "b32", "b64")}
    service = replace(view.snapshot.service, argv=("/usr/bin/python3", *view.snapshot.service.argv[1:]))
    snapshot = replace(view.snapshot, log=view.snapshot.log[-60:], service=service)
    write(name, replace(view, profiles=known, unlocked_s=None, snapshot=snapshot))


if __name__ == "__main__":
    main()
