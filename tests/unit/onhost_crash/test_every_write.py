"""Each program of a switch dies at each of its writing calls, with the host or alone; what is left comes to rest."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.onhost_crash.box import Box, Runner, box

Step = Callable[[Box, "int | None"], object]


def _verb(verb: str, **fields: object) -> Step:
    return lambda box, cut: box.ask(verb, cut, op=box.ops[-1], **fields)


def _confirm(box: Box, cut: int | None) -> object:
    return box.ask("confirm", cut, op=box.ops[-1], invocation=box.unit["invocation"])


def _systemd(box: Box, cut: int | None) -> object:
    return box.systemd(cut)


def _guard(box: Box, cut: int | None) -> object:
    return box.guard(cut)


def _put(box: Box, cut: int | None) -> object:
    answer = box.ask("put_release", cut, release=Box.release("newer"), meta={"profile": "newer"})
    if answer.get("ok"):
        box.candidate = answer["release"]
    return answer


def _crash(box: Box, cut: int | None) -> object:
    return box.crash()


def _no_restarts(box: Box, cut: int | None) -> object:
    box.restarts = False
    return None


def _late(box: Box, cut: int | None) -> object:
    box.ahead_s += 100
    return None


def _serves(what: str) -> Step:
    return lambda box, cut: box.unit.update(serves=what)


def _started_by_hand(box: Box, cut: int | None) -> object:
    assert box.ends(box.ops[-1]) == ["rollback_failed"]
    box.unit.update(active="activating", asked=True, todo=["start"])
    return None


ON_TRIAL: list[Step] = [lambda box, cut: box.arm(cut), _verb("swap"), _verb("stop"), _systemd, _verb("start"), _systemd]
JUDGED = [*ON_TRIAL, _guard, _verb("ready"), _verb("soak")]
BACK = [_guard, _systemd, _systemd, _guard, _systemd, _guard, _guard]
SCENARIOS: dict[str, list[Step]] = {
    "commit": [_put, *JUDGED, _confirm, _guard],
    "failed gate": [*JUDGED, _verb("fail", cause="garbage_output"), *BACK],
    "lease lost": [*ON_TRIAL, _late, *BACK],
    "stable serves nonsense too": [
        *JUDGED,
        _verb("fail", cause="garbage_output"),
        _serves("wrong"),
        *BACK,
        _late,
        *BACK,
        _late,
        *BACK,
        _serves("yes"),
        _started_by_hand,
        _systemd,
    ],
    "abort while armed": [lambda box, cut: box.arm(cut), _verb("abort"), _guard],
    "crash loop": [*ON_TRIAL, _crash, _systemd, _systemd, _crash, _systemd, _systemd, _guard, _guard, _guard],
    "late crash": [*JUDGED, _confirm, _guard, _crash, _systemd, _systemd, _crash, _systemd, _systemd],
    "late crash, Restart=no": [*JUDGED, _confirm, _guard, _no_restarts, _crash, _systemd, _systemd, _systemd],
}
LOSSES: dict[str, Callable[[Box, int], None]] = {
    "killed alone": lambda box, seed: None,
    "power cut": lambda box, seed: box.power_cut(None, keeps_run=False),
    "power cut, some writes kept": lambda box, seed: box.power_cut(random.Random(seed), keeps_run=False),
    "power cut, /run kept": lambda box, seed: box.power_cut(random.Random(seed), keeps_run=True),
}


LONG = bool(os.environ.get("DDTUNE_TEST_LONG"))
"""Each crash with each loss. Else the losses take turns, and so do the scenarios at what they begin with: ``commit``
is cut at each write of it, the others at every third."""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_write(runner: Runner, tmp_path: Path, scenario: str) -> None:
    points, steps = 0, SCENARIOS[scenario]
    with box(runner) as host:
        for number, step in enumerate(steps):
            before = Kept(host)
            host.writes = 0
            step(host, None)
            host.check()
            after, writes = Kept(host), host.writes
            stride = 3 if steps[: number + 1] == JUDGED[: number + 1] and not LONG else 1
            for cut in range(points % stride, writes, stride):
                for loss, lose in LOSSES.items() if LONG else [list(LOSSES.items())[points % len(LOSSES)]]:
                    before.restore()
                    try:
                        step(host, cut)
                        host.check()
                        lose(host, points)
                        host.recover()
                    except AssertionError as error:
                        raise AssertionError(f"{scenario}, step {number}, write {cut}, {loss}: {error}") from error
                    points += 1
            after.restore()
        host.settle_systemd()
        assert host.runs() in host.passed
        host.recover()
    print(f"{scenario}: {points} crashes")


class Kept:
    """A host as it was, to go back to."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._folder = Path(f"{box.root}.kept-{id(self)}")
        shutil.copytree(box.root, self._folder, symlinks=True)
        self._state = {
            name: value.copy() if isinstance(value, (dict, list, set)) else value
            for name, value in vars(box).items()
            if name not in ("_dirs", "_files", "root", "runner", "paths")
        }
        self._todo = list(box.unit["todo"])

    def restore(self) -> None:
        shutil.rmtree(self._box.root)
        shutil.copytree(self._folder, self._box.root, symlinks=True)
        for name, value in self._state.items():
            setattr(self._box, name, value.copy() if isinstance(value, (dict, list, set)) else value)
        self._box.unit["todo"] = list(self._todo)
        self._box.synced()

    def __del__(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
