"""Records tests/tui/data from an embedded host: ``python -m tests.tui.record`` (about a minute)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from ddtune.config.resolve import resolve_host
from ddtune.tui.desk import Desk
from ddtune.tui.view import View
from tests.tui.embedded import serving
from tests.tui.recorded import DATA, write

WAIT_S = 120.0


def main() -> None:
    DATA.mkdir(exist_ok=True)
    with serving(speed=20) as name:
        desk = Desk(resolve_host(name), write=True)
        try:
            desk.start(lambda: None)
            wait(lambda: desk.view().snapshot.service.ttft_p50_s is not None)
            time.sleep(2)
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
    known = {one: view.profiles[one] for one in ("b8-nvls", "b12", "b16-eager")}
    service = replace(view.snapshot.service, argv=("/usr/bin/python3", *view.snapshot.service.argv[1:]))
    snapshot = replace(view.snapshot, log=view.snapshot.log[-60:], service=service)
    write(name, replace(view, profiles=known, unlocked_s=None, snapshot=snapshot))


if __name__ == "__main__":
    main()
