"""``python -m tests.faults.races N``: N times two processes race a confirm against a deadline; prints what came of it.

Each race is of two real processes over the product's own lock and files, in a private root.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import zipfile
from multiprocessing.synchronize import Barrier
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.faults import broken

MODULES = ("paths", "ledger", "txn", "releases", "clock")
UNIT = "racing.service"
RELEASE = {"argv": ["/bin/true"], "cwd": "/", "env_set": {}, "env_unset": [], "schema": 1}
WIDTH_S = 0.0008


def _programs(folder: Path) -> dict[str, ModuleType]:
    """The on-host modules, from a zipapp that may be a broken one."""
    unpacked = folder / "programs"
    (folder / "onhost.pyz").write_bytes(broken.pyz(broken.asked()))
    with zipfile.ZipFile(folder / "onhost.pyz") as archive:
        archive.extractall(unpacked)
    (unpacked / "ddtune").rename(unpacked / "raced")
    return _modules(folder)


def _racer(part: str, folder: str, barrier: Barrier, races: int, answers: Any) -> None:
    """One side: confirms, or looks whether time is up, at a moment close to the deadline."""
    m = _modules(Path(folder))
    paths, txn, clock = m["paths"].Paths(folder).unit(UNIT), m["txn"], m["clock"]
    dice = random.Random(part)
    for number in range(races):
        barrier.wait()
        known = m["ledger"].load(paths)
        at = known.lease_until + dice.uniform(-WIDTH_S, WIDTH_S)
        while clock.boottime() < at:
            pass
        if part == "confirm":
            done = m["ledger"].apply(paths, lambda now, op=known.op: txn.Confirm(now, op, "trial", "trial"))
            answers[number] = 1 if done.refused is None else 0
        else:
            m["ledger"].apply(paths, lambda now, op=known.op: txn.Tick(now, op))
        barrier.wait()


def _modules(folder: Path) -> dict[str, ModuleType]:
    sys.path.insert(0, str(folder / "programs"))
    return {name: importlib.import_module(f"raced.onhost.{name}") for name in MODULES}


def run(races: int, folder: Path) -> dict[str, int]:
    """Counts of both outcomes, and of races whose witnesses disagree."""
    m = _programs(folder)
    paths, releases = m["paths"].Paths(str(folder)).unit(UNIT), m["releases"]
    os.makedirs(paths.releases)
    names = [releases.put(paths, {**RELEASE, "argv": ["/bin/true", which]}, {}) for which in ("stable", "candidate")]
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(3), context.Array("i", races)
    racers = [
        context.Process(target=_racer, args=(part, str(folder), barrier, races, answers), daemon=True)
        for part in ("confirm", "expire")
    ]
    for racer in racers:
        racer.start()
    counts = {"committed": 0, "rolled_back": 0, "split": 0}
    for number in range(races):
        _begin(m, paths, f"{number:06d}-race", *names)
        barrier.wait(60)
        barrier.wait(60)
        outcome = _judge(m, paths, number, names, bool(answers[number]))
        counts[outcome] += 1
    for racer in racers:
        racer.join(10)
    return counts


def _begin(m: dict[str, ModuleType], paths: Any, op: str, stable: str, candidate: str) -> None:
    now = m["clock"].boottime()
    m["releases"].set_stable(paths, stable)
    os.makedirs(paths.run, exist_ok=True)
    for path in (paths.history, paths.probation):
        if os.path.exists(path):
            os.unlink(path)
    until = now + 0.005
    m["ledger"].write(
        paths,
        m["txn"].Txn(
            op=op, kind="switch", unit=UNIT, owner={}, boot_id=m["clock"].boot_id(), armed_at=now, wall_at=0.0,
            candidate=candidate, stable=stable, lease_s=60.0, lease_until=until, confirm_deadline=until,
            state="SOAK", ready=True, trial_invocation="trial", tries_left=0,
        ),
    )  # fmt: skip


def _judge(m: dict[str, ModuleType], paths: Any, number: int, names: list[str], confirmed: bool) -> str:
    """The outcome on which the state, the link, the history and the confirm's own answer agree, or ``split``."""
    txn, stable = m["ledger"].load(paths), m["releases"].stable(paths)
    ends = [line["event"] for line in m["releases"].history(paths) if line["event"] in m["releases"].ENDS]
    if (txn.state, stable, ends, confirmed) == ("COMMITTED", names[1], ["committed"], True):
        return "committed"
    # The end of a rollback is written once stable serves, which is the guard's part.
    if (txn.state, stable, ends, confirmed) == ("ROLLED_BACK", names[0], [], False):
        return "rolled_back"
    print(f"race {number}: {txn.state} {stable == names[1]} {ends} {confirmed}", file=sys.stderr)
    return "split"


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="ddtune-races-", dir="/dev/shm"))
    try:
        print(json.dumps(run(int(sys.argv[1]), folder)))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
