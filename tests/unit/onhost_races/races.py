"""Confirm, guard, launcher and a second operator at the moment of the deadline, each in a process of its own.

The processes live for the whole run and share one private root: per race they meet at a barrier, then each spins to a
moment drawn close to the deadline and runs the product's own code on the real files and the real lock. Only systemd
and the engine's process are stood in for. Usage: ``python -m tests.unit.onhost_races.races N``.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from multiprocessing.synchronize import Barrier
from typing import Any

from ddtune.onhost import choose, clock, helper, ledger, releases, store, unit, verbs_txn
from ddtune.onhost import txn as t
from ddtune.onhost.inspect_process import Process
from ddtune.onhost.paths import Install, Paths, UnitPaths

UNIT = "racing.service"
ENGINE = "/bin/engine"
AHEAD_S = 0.006
SPREAD_S = {"confirm": (-0.004, 0.0005), "guard": (-0.0005, 0.001), "start": (-0.003, 0.001), "abort": (-0.004, 0.001)}
"""When each acts, from the deadline; a confirm has some milliseconds of its own before it takes the lock, and begins
so much earlier, or later, as makes it win about every second race on this machine, now."""
LEAD_S = (-0.05, 0.25)
STEP_S = 0.0002
STEP_BY = 1.3
SPIN_S = 0.002
WAIT_S = 60


def _release(name: str) -> dict[str, Any]:
    return {"argv": [ENGINE, name], "cwd": "/", "env_set": {}, "env_unset": [], "schema": 1}


def stand_in(root: str) -> None:
    """This process takes the start ``trial`` of the candidate for what systemd runs."""
    state = unit.UnitState("active", "running", "success", 4242, "trial", 0, 0, 0)
    process = Process(4242, (ENGINE, "candidate"), {}, "/", None)
    # Not by way of the program's name, which in a worker of pytest's is that of a helper sent along.
    helper._constants = lambda _: Install(root=root)
    verbs_txn.inspect_process.read_process = lambda pid: process
    unit.Systemctl.state = lambda self, name: state  # type: ignore[method-assign]
    # No guard of systemd's: the racer is it.
    for module in (verbs_txn,):
        module.guard_alive = lambda paths, op: True


def _acts(paths: UnitPaths) -> Mapping[str, Callable[[str, int], bool]]:
    """What each racer does, and whether it was told yes."""

    def ask(verb: str, **fields: Any) -> bool:
        raw = json.dumps({"proto": 1, "verb": verb, "unit": UNIT, **fields}).encode()
        return bool(helper.answer(raw)["ok"])

    def guard(op: str, _: int) -> bool:
        # As the guard does, again and again: its first look may come a moment before the deadline.
        while (applied := ledger.apply(paths, lambda at: t.Tick(at, op))).refused is None:
            if applied.txn is None or applied.txn.state not in t.TRYING:
                return True
        return False

    return {
        "confirm": lambda op, _: ask("confirm", op=op, invocation="trial"),
        "guard": guard,
        "start": lambda _, number: choose.choose(paths, f"start-{number}") == "trial",
        "abort": lambda op, _: ask("abort", op=op),
    }


def _racer(part: str, root: str, barrier: Barrier, seed: int, entered: Any, said: Any, lead: Any) -> None:
    stand_in(root)
    paths = Paths(root).unit(UNIT)
    act, dice, number = _acts(paths)[part], random.Random(f"{seed} {part}"), 0
    while True:
        barrier.wait(WAIT_S)
        if entered[0] < 0:
            return
        number += 1
        if entered[_BITS[part]]:
            known = ledger.load(paths)
            assert known is not None
            at = known.lease_until + dice.uniform(*SPREAD_S[part]) - (lead.value if part == "confirm" else 0)
            # Spins no longer than it must: on two cores the five would keep each other waiting.
            while (early := at - clock.boottime()) > 0:
                if early > SPIN_S:
                    time.sleep(early - SPIN_S)
            said[_BITS[part]] = int(act(known.op, number))
        barrier.wait(WAIT_S)


_BITS = {"confirm": 1, "guard": 2, "start": 3, "abort": 4}


def run(races: int, seed: int = 0) -> Counter[str]:
    """Counts of what came of ``races`` races: ``committed``, ``rolled_back`` and ``split``, and who took part."""
    root = tempfile.mkdtemp(prefix="ddtune-races-", dir="/dev/shm")
    try:
        return _run(races, seed, root)
    finally:
        shutil.rmtree(root)


def _run(races: int, seed: int, root: str) -> Counter[str]:
    stand_in(root)
    paths = Paths(root).unit(UNIT)
    os.makedirs(paths.releases)
    store.write_json(paths.site, {"profile": "stable"})
    names = [releases.put(paths, _release(name), {}) for name in ("stable", "candidate")]
    context = multiprocessing.get_context("spawn")
    barrier, entered, said = context.Barrier(len(_BITS) + 1), context.Array("i", 5), context.Array("i", 5)
    lead = context.Value("d", 0.002)
    shared = (root, barrier, seed, entered, said, lead)
    racers = [context.Process(target=_racer, args=(part, *shared), daemon=True) for part in _BITS]
    for racer in racers:
        racer.start()
    counts: Counter[str] = Counter()
    step, before = STEP_S, ""
    for number in range(races):
        # A confirm against the guard always; in turn a start, an operator's abort, both or neither beside them.
        entered[1] = entered[2] = 1
        entered[3], entered[4] = number % 2, number // 2 % 2
        said[:] = [0] * 5
        op = f"20261129190000-{number:06x}"
        _begin(paths, op, *names, lead.value)
        barrier.wait(WAIT_S)
        barrier.wait(WAIT_S)
        outcome = _judge(paths, op, names, dict(zip(_BITS, said[1:], strict=True)), bool(entered[3]))
        counts[outcome] += 1
        # By growing steps while one side goes on winning: a machine that is ten times slower is soon followed.
        step, before = step * STEP_BY if outcome == before else STEP_S, outcome
        later = lead.value + (step if outcome == "rolled_back" else -step)
        lead.value = min(max(later, LEAD_S[0]), LEAD_S[1])
    entered[0] = -1
    barrier.wait(WAIT_S)
    for racer in racers:
        racer.join(10)
    return counts


def _begin(paths: UnitPaths, op: str, stable: str, candidate: str, lead_s: float) -> None:
    paths.ensure_run()
    releases.set_stable(paths, stable)
    for path in (paths.history, paths.probation, paths.chosen, paths.previous):
        store.remove(path)
    store.swap_link(paths.trial, paths.release_dir(candidate))
    now = clock.boottime()
    until = now + AHEAD_S + max(0.0, lead_s)
    txn = t.Txn(
        op=op, kind="switch", unit=UNIT, owner={}, boot_id=clock.boot_id(), armed_at=now, wall_at=time.time(),
        candidate=candidate, stable=stable, lease_s=60.0, lease_until=until, confirm_deadline=until + 60,
        state=t.SOAK, ready=True, start_invocation="before", trial_invocation="trial", tries_left=0, probation_s=60.0,
    )  # fmt: skip
    ledger.write(paths, txn)


def _judge(paths: UnitPaths, op: str, names: list[str], said: dict[str, int], started: bool) -> str:
    """The outcome on which all agree: state, links, history, probation, each one's own answer, what a start chose."""
    txn = ledger.load(paths)
    assert txn is not None
    ends = [
        line["event"] for line in releases.history(paths) if line.get("op") == op and line["event"] in releases.ENDS
    ]
    seen = {
        "state": txn.state,
        "stable": names.index(releases.stable(paths) or ""),
        "previous": releases.previous(paths),
        "ends": ends,
        "probation": store.read_json(paths.probation) is not None,
        "trial": os.path.lexists(paths.trial),
        "confirmed": bool(said["confirm"]),
        "aborted": bool(said["abort"]),
        "tried again": bool(said["start"]),
    }
    chosen = (store.read_json(paths.chosen) or {}).get("release")
    wanted = {
        "state": t.COMMITTED, "stable": 1, "previous": names[0], "ends": ["committed"], "probation": True,
        "trial": False, "confirmed": True, "aborted": False, "tried again": False,
    }  # fmt: skip
    # A start that came before the commit was chosen for stable as it was then, which the confirm then refuses.
    if seen == wanted and chosen in (None, names[1]):
        return "committed"
    wanted = {
        "state": t.ROLLED_BACK, "stable": 0, "previous": None, "ends": [], "probation": False, "trial": False,
        "confirmed": False, "aborted": seen["aborted"], "tried again": False,
    }  # fmt: skip
    # The end of a rollback is written once stable serves, which is the guard's part.
    if seen == wanted and chosen == (names[0] if started else None):
        return "rolled_back"
    print(f"{op}: {seen}, chosen {chosen and names.index(chosen)}, said {said}", file=sys.stderr)
    return "split"


if __name__ == "__main__":
    begun = time.monotonic()
    found = run(int(sys.argv[1]))
    print(json.dumps({**found, "seconds": round(time.monotonic() - begun)}))
