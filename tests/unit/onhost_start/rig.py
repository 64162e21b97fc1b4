"""The real zipapp in a private root, run as systemd runs it, one program at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ddtune.host import bundle
from ddtune.onhost import clock, ledger, releases, store
from ddtune.onhost import txn as t
from ddtune.onhost.paths import Paths

UNIT = "engine.service"


class Rig:
    """``job`` is the unit's job as ``stop running``, ``state`` its ActiveState; ``calls`` what was asked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = Paths(str(root)).unit(UNIT)
        self.pyz = Path(Paths(str(root)).pyz)
        self.pyz.parent.mkdir(parents=True)
        self.pyz.write_bytes(bundle.pyz())
        os.makedirs(self.paths.releases)
        self.paths.ensure_run()
        constants = {"proto": 1, "root": str(root), "python": sys.executable}
        for name in ("systemctl", "systemd-run", "journalctl"):
            constants[name.replace("-", "_")] = self._tool(name)
        (self.pyz.parent / "install.json").write_text(json.dumps(constants))
        self.stable = self.put("stable")
        self.candidate = self.put("candidate")
        releases.set_stable(self.paths, self.stable)
        self.job = ""
        self.state = "failed"
        self.kernel = ""

    def _tool(self, name: str) -> str:
        """A script that writes its arguments down and says what the test put into ``NAME.out``."""
        tools = self.root / "tools"
        tools.mkdir(exist_ok=True)
        path = tools / name
        path.write_text(
            f'#!/bin/sh\necho "{name} $*" >>{self.root}/calls\n'
            f'case "$*" in *list-jobs*) cat {self.root}/job;; *show*|*-k*) cat {self.root}/{name}.out;; esac\n'
        )
        path.chmod(0o755)
        return str(path)

    @property
    def calls(self) -> list[str]:
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def put(self, name: str, **changes: Any) -> str:
        release = {
            "argv": [sys.executable, "-c", "import os,sys;os.write(1,open('/proc/self/environ','rb').read())", name],
            "env_set": {"SET": "by the release"},
            "env_unset": ["GONE"],
            "cwd": "/",
            "schema": 1,
        }
        return releases.put(self.paths, {**release, **changes}, {"profile": name})

    def run(self, *arguments: str, invocation: str = "inv1", **env: str) -> subprocess.CompletedProcess[bytes]:
        """One program, with exactly the environment given."""
        (self.root / "job").write_text(f"12 other.service stop running\n4711 {UNIT} {self.job}\n" if self.job else "")
        (self.root / "systemctl.out").write_text(f"ActiveState={self.state}\nSubState=x\nInvocationID={invocation}\n")
        (self.root / "journalctl.out").write_text(self.kernel)
        return subprocess.run(
            [sys.executable, "-I", str(self.pyz), *arguments],
            env={"INVOCATION_ID": invocation, **env},
            capture_output=True,
            timeout=30,
        )

    def choose(self, invocation: str = "inv1") -> dict[str, Any]:
        """What ``choose`` published for this start."""
        done = self.run("choose", UNIT, invocation=invocation)
        assert done.returncode == 0, done.stderr
        found = store.read_json(self.paths.chosen)
        assert found is not None
        assert found["invocation"] == invocation
        return found

    def arm(self, swap: bool = True, **changes: Any) -> None:
        def make(at: float) -> t.Event:
            fields: dict[str, Any] = {
                "op": "op", "kind": "switch", "unit": UNIT, "owner": {"who": "ada"}, "boot_id": clock.boot_id(),
                "armed_at": at, "wall_at": clock.wall(), "candidate": self.candidate, "stable": self.stable,
                "lease_s": 60.0, "lease_until": at + 60, "confirm_deadline": at + 100,
            }  # fmt: skip
            return t.Arm(at, t.Txn(**{**fields, **changes}))

        assert ledger.apply(self.paths, make).refused is None
        if swap:
            assert ledger.apply(self.paths, lambda at: t.Swap(at, "op")).refused is None

    def txn(self) -> t.Txn:
        found = ledger.load(self.paths)
        assert found is not None
        return found

    def probation(self, ended: dict[str, Any] | None = None) -> None:
        """The candidate was committed a moment ago."""
        releases.set_previous(self.paths, self.stable)
        releases.set_stable(self.paths, self.candidate)
        now = clock.wall()
        record = {"release": self.candidate, "previous": self.stable, "op": "op", "at": now, "until": now + 60}
        store.write_json(self.paths.probation, {**record, "ended": ended})
