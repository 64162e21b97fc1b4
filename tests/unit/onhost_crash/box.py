"""A private root, its systemd and its disk: programs run one at a time, may be killed, and the power may go."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ddtune.host import bundle
from ddtune.onhost import releases, store
from ddtune.onhost.paths import Paths

UNIT = "engine.service"
ENGINE = "/bin/engine"
OWNER = {"who": "ada", "host": "laptop", "pid": 1, "version": "0"}


class Runner:
    """The process that runs programs in forks of its own, for any number of boxes."""

    def __init__(self, folder: Path) -> None:
        pyz = folder / "ddtune-onhost.pyz"
        pyz.write_bytes(bundle.pyz())
        self._process = subprocess.Popen(
            [sys.executable, "-I", Path(__file__).parent / "runner.py", pyz],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate(timeout=10)


class Box:
    """One host. ``unit`` is what its systemd knows, with ``todo`` the programs that it has to run next.

    ``passed`` are the releases that an operator has confirmed rightly; ``told`` what a commit was answered to have
    made stable, for good.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.root = Path(tempfile.mkdtemp(prefix="ddtune-crash-", dir="/dev/shm"))
        self.paths = Paths(str(self.root)).unit(UNIT)
        self.ahead_s, self.boots, self.starts = 0.0, 1, 0
        self.restarts = True
        self.ops: list[str] = []
        self.told: str | None = None
        self.writes = 0
        os.makedirs(self.paths.releases)
        store.write_json(self.paths.base, {"argv": [ENGINE], "cwd": "/"})
        store.write_json(self.paths.site, {"profile": "stable", "api_port": 30000})
        self.stable, self.candidate = (
            releases.put(self.paths, self.release(name), {"profile": name}) for name in ("stable", "candidate")
        )
        releases.set_stable(self.paths, self.stable)
        self.passed = {self.stable}
        self.unit: dict[str, Any] = {
            "name": UNIT, "active": "inactive", "result": "success", "invocation": "", "argv": [], "job": "",
            "guard": None, "todo": ["start"], "asked": True, "serves": "yes",
        }  # fmt: skip
        self.synced()
        self.settle_systemd()

    @staticmethod
    def release(name: str) -> dict[str, Any]:
        return {"argv": [ENGINE, name], "cwd": "/", "env_set": {}, "env_unset": [], "schema": 1}

    def close(self) -> None:
        shutil.rmtree(self.root)

    # Programs.

    def run(self, verb: str, *args: str, stdin: Any = None, cut: int | None = None, **env: str) -> dict[str, Any]:
        """One program, killed at its ``cut``-th writing call."""
        answer = self.runner.run(
            {
                "root": str(self.root), "verb": verb, "args": args, "stdin": stdin, "cut": cut, "unit": self.unit,
                "ahead_s": self.ahead_s, "boot": f"boot-{self.boots}",
                "env": {"INVOCATION_ID": self.unit["invocation"], **env},
            }
        )  # fmt: skip
        assert answer["rc"] != 70, answer["out"]
        self.unit, self.writes = answer["unit"], answer["writes"]
        for kind, what, content in answer["synced"]:
            (self._dirs if kind == "dir" else self._files)[what] = content
        return answer

    def ask(self, verb: str, cut: int | None = None, **fields: Any) -> dict[str, Any]:
        """The helper's answer; empty when it died."""
        stable, before = releases.stable(self.paths), self.txn()
        request = {"proto": 1, "verb": verb, "unit": UNIT, **fields}
        answer = self.run("helper", stdin=request, cut=cut)
        if verb == "confirm" and before.get("ready") and before.get("state") in ("TRIAL", "SOAK"):
            # From the moment that the intent may be on the disk.
            self.passed.add(before["candidate"])
        said = {} if answer["died"] else dict(json.loads(answer["out"]))
        assert "has a bug" not in said.get("message", ""), said
        if verb == "confirm" and said.get("ok"):
            assert said["txn"]["state"] == "COMMITTED"
            self.told = said["txn"]["candidate"]
        assert verb == "confirm" or self.told is None or releases.stable(self.paths) in (stable, self.told)
        return said

    def arm(self, cut: int | None = None, candidate: str | None = None) -> dict[str, Any]:
        self.ops.append(f"20261129190000-{len(self.ops):06x}")
        return self.ask(
            "arm", cut, op=self.ops[-1], kind="switch", owner=OWNER, candidate=candidate or self.candidate, lease_s=60,
            confirm_deadline_s=600, start_deadline_s=120, probation_s=10000, force=True, tries=2,
        )  # fmt: skip

    def guard(self, cut: int | None = None) -> None:
        """The guard until it has to wait, if there is one."""
        if self.unit["guard"]:
            self.run("guard", UNIT, self.unit["guard"], cut=cut)

    # systemd.

    def systemd(self, cut: int | None = None) -> None:
        """The next of the programs around a start or an end."""
        if not self.unit["todo"]:
            return
        what = self.unit["todo"].pop(0)
        if what == "ended":
            self.unit["job"] = "stop running" if self.unit["asked"] else ""
            self.run("ended", UNIT, cut=cut, SERVICE_RESULT="signal", EXIT_CODE="killed", EXIT_STATUS="KILL")
            self.unit["job"] = ""
        elif what == "failed":
            self.unit["active"] = "failed"
            self.run("ended-service", UNIT, cut=cut)
        else:
            self.starts += 1
            self.unit["invocation"] = f"start-{self.starts}"
            # A choose that dies does not keep the service down.
            self.run("choose", UNIT, cut=cut)
            became = self.run("become", UNIT)["became"]
            assert became, "the service was left down"
            self.unit.update(active="active", argv=became, asked=False)

    def settle_systemd(self) -> None:
        while self.unit["todo"]:
            self.systemd()

    def crash(self) -> None:
        """The engine dies."""
        if self.unit["active"] == "active":
            self.unit.update(active="activating", asked=False, todo=["ended", "start" if self.restarts else "failed"])

    def power_cut(self, dice: random.Random | None, keeps_run: bool) -> None:
        """The host starts again. Writes that were not synced are lost; with ``dice`` each of them may be."""
        for folder in (self.paths.state, self.paths.run) if keeps_run else (self.paths.state,):
            if os.path.isdir(folder):
                image = self._image(folder, dice)
                shutil.rmtree(folder)
                _write(folder, image)
        if not keeps_run:
            shutil.rmtree(self.paths.run, ignore_errors=True)
        self.boots += 1
        self.unit.update(active="inactive", invocation="", guard=None, todo=["start"], asked=True, argv=[], job="")
        self.synced()

    # The disk.

    def synced(self) -> None:
        """All that there is is durable."""
        self._dirs: dict[str, dict[str, Any]] = {}
        self._files: dict[int, str] = {}
        for folder, _, _ in os.walk(self.root):
            self._dirs[folder] = _entries(folder)
            for entry in os.scandir(folder):
                if entry.is_file(follow_symlinks=False):
                    self._files[entry.inode()] = Path(entry.path).read_bytes().decode("latin-1")

    def _image(self, folder: str, dice: random.Random | None) -> dict[str, Any]:
        """What a power cut leaves of ``folder``: links as text, files as bytes, folders as images."""
        now, then = _entries(folder), self._dirs.get(folder, {})
        image: dict[str, Any] = {}
        for name in sorted({*now, *then}):
            found = (now if dice and dice.random() < 0.5 else then).get(name)
            path = f"{folder}/{name}"
            if found is None:
                continue
            if isinstance(found, str):
                image[name] = found
            elif os.path.isdir(path) and not os.path.islink(path):
                image[name] = self._image(path, dice)
            else:
                image[name] = self._content(folder, found, dice)
        return image

    def _content(self, folder: str, inode: int, dice: random.Random | None) -> bytes:
        synced = self._files.get(inode, "").encode("latin-1")
        for entry in os.scandir(folder):
            if dice and entry.inode() == inode and dice.random() < 0.5:
                return Path(entry.path).read_bytes()
        return synced

    # What there is to see.

    def txn(self) -> dict[str, Any]:
        return store.read_json(self.paths.txn) or {}

    def runs(self) -> str | None:
        """The release that the main process runs."""
        if self.unit["active"] != "active":
            return None
        return releases.name_of(self.release(self.unit["argv"][1]))

    def ends(self, op: str) -> list[str]:
        lines = releases.history(self.paths)
        return [line["event"] for line in lines if line.get("op") == op and line["event"] in releases.ENDS]

    def check(self) -> None:
        """What must hold at every moment."""
        stable, txn = releases.stable(self.paths), self.txn()
        assert stable is not None, "stable names nothing"
        releases.read(self.paths, stable)
        assert stable in self.passed, "stable was never confirmed"
        assert self.told in (None, stable) or "late_crash" in self.events(), "a commit that was told is gone"
        for op in self.ops:
            ends = self.ends(op)
            assert len(ends) < 2 or ends[1:] == ["rollback_failed"], f"{op} ended as {ends}"
        if self.runs() not in (None, *self.passed):
            assert txn.get("settled") is False, "a release on trial runs with nobody to take it back"

    def events(self) -> list[str]:
        return [str(line.get("event")) for line in releases.history(self.paths)]

    def recover(self) -> None:
        """Left alone, the host comes to rest: it serves what may be trusted, and every op has its one end."""
        self.settle_systemd()
        for _ in range(30):
            self.ahead_s += 700
            txn = self.txn()
            if not txn or txn["settled"]:
                break
            if self.unit["guard"] is None:
                # Its helper died first, or it went with its boot: the next call of anybody brings it.
                self.ask("abort", op=None)
            self.guard()
            self.settle_systemd()
        # A guard that was killed is started again by systemd, also after the decision.
        self.guard()
        txn = self.txn()
        assert not txn or txn["settled"], f"never settles: {txn['state']} {txn['restore']}"
        self.check()
        if self.unit["active"] != "active":
            # One that never swapped leaves the service as it found it: down, where an earlier one had given up.
            ops = [str(txn.get("op"))] if "swapped" in txn.get("times", {}) else self.ops
            given_up = (["rollback_failed"], ["host_action_required"])
            handed_over = any(self.ends(op)[-1:] in given_up for op in ops)
            assert handed_over or not self.restarts, "the service was left down"
            self.unit["todo"] = ["start"]
            self.settle_systemd()
        assert self.runs() in self.passed
        # What nobody has asked since is closed by the next boot.
        self.power_cut(None, keeps_run=False)
        self.settle_systemd()
        self.check()
        assert self.runs() == releases.stable(self.paths)
        assert not os.path.lexists(self.paths.trial)
        armed = {line["op"] for line in releases.history(self.paths) if line["event"] == "armed"}
        assert all(self.ends(op) for op in armed), "an op was left without its end"


def _entries(folder: str) -> dict[str, Any]:
    try:
        found = list(os.scandir(folder))
    except FileNotFoundError:
        return {}
    return {entry.name: os.readlink(entry.path) if entry.is_symlink() else entry.inode() for entry in found}


def _write(folder: str, image: dict[str, Any]) -> None:
    os.makedirs(folder)
    for name, found in image.items():
        path = f"{folder}/{name}"
        if isinstance(found, dict):
            _write(path, found)
        elif isinstance(found, str):
            os.symlink(found, path)
        else:
            Path(path).write_bytes(found)


@contextlib.contextmanager
def box(runner: Runner) -> Iterator[Box]:
    made = Box(runner)
    try:
        yield made
    finally:
        made.close()
