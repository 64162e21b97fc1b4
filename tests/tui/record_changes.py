"""Records the states of a change from embedded hosts: ``python -m tests.tui.record_changes [SCENE…]`` (minutes)."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from ddtune.config.resolve import resolve_host
from ddtune.tui.catalogue import Entry
from ddtune.tui.desk import Desk
from tests.tui.embedded import serving, shorter_gates
from tests.tui.fakes import NAME
from tests.tui.record import WAIT_S, keep, run, wait
from tests.tui.recorded import DATA, write


def main() -> None:
    """Every scene, or those that are named."""
    DATA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = folder
        shorter_gates()
        for name in sys.argv[1:] or SCENES:
            SCENES[name]()


@contextmanager
def opened(**env: str) -> Iterator[Desk]:
    """A desk on a fresh embedded host whose first rates have come."""
    with serving(20, **env) as name:
        # The name that the tests give their host, which is not another one on each run.
        desk = Desk(replace(resolve_host(name), name=NAME), write=True)
        try:
            desk.start(lambda: None)
            wait(lambda: desk.view().snapshot.service.ttft_p50_s is not None)
            time.sleep(2)
            yield desk
        finally:
            desk.stop()


def committed() -> None:
    """A switch under way, and committed."""
    with opened() as desk:
        desk.carry_out(desk.plan("switch", "b16-eager").result(WAIT_S))
        wait(lambda: state(desk) == "TRIAL" and "start weights" in [one.progress.phase for one in run(desk).steps])
        keep("trial", desk.view())
        wait(lambda: not desk.running)
        wait(lambda: desk.view().snapshot.service.standing == "probation")
        time.sleep(2)
        keep("probation", desk.view())
        write("profiles", Known(desk.catalogue().result(WAIT_S)))


def rolling_back() -> None:
    """A trial that crashes."""
    with opened() as desk:
        desk.carry_out(desk.plan("switch", "b12", force=True).result(WAIT_S))
        wait(lambda: state(desk) == "ROLLED_BACK" and not desk.view().snapshot.txn["settled"])
        time.sleep(1)
        keep("rolling-back", desk.view())


def rollback_failed() -> None:
    """Somebody else's process takes the port as soon as it is free, so that stable cannot come back either."""
    with opened() as desk, squatter(desk.config.api_port):
        desk.carry_out(desk.plan("switch", "b16-eager").result(WAIT_S))
        wait(lambda: not desk.running)
        time.sleep(2)
        keep("rollback-failed", desk.view())


def host_action() -> None:
    """The engine reports an error of the memory of a GPU."""
    with opened() as desk:
        desk.carry_out(desk.plan("switch", "b16-eager").result(WAIT_S))
        wait(lambda: state(desk) == "TRIAL" and "start weights" in [one.progress.phase for one in run(desk).steps])
        service = desk.view().snapshot.service
        header = {
            "unit": service.unit,
            "invocation": service.invocation,
            "pid": service.main_pid,
            "identifier": "python3",
        }
        with socket.socket(socket.AF_UNIX) as journal:
            journal.connect(f"{desk.config.root}/run/sim/journal.sock")
            text = "[2026-01-01 00:00:00 TP5] RuntimeError: CUDA error: uncorrectable ECC error encountered"
            journal.sendall(json.dumps(header).encode() + b"\n" + text.encode() + b"\n")
        wait(lambda: not desk.running)
        time.sleep(2)
        keep("host-action", desk.view())


SCENES = {
    "committed": committed,
    "rolling-back": rolling_back,
    "rollback-failed": rollback_failed,
    "host-action": host_action,
}


@dataclass(frozen=True)
class Known:
    """The profiles as they stood on the host."""

    entries: tuple[Entry, ...]


@contextmanager
def squatter(port: int) -> Iterator[None]:
    ended = threading.Event()

    def take() -> None:
        while not ended.wait(0.02):
            with suppress(OSError), socket.create_server(("127.0.0.1", port)):
                ended.wait()

    threading.Thread(target=take, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def state(desk: Desk) -> object:
    return (desk.view().snapshot.txn or {}).get("state")


if __name__ == "__main__":
    main()
