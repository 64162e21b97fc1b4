"""A private root with the real zipapp installed in it, a small service manager, and a small engine."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ddtune.host import bundle

HERE = Path(__file__).parent
UNIT = "sglang-k26.service"
OWNER = {"who": "ada", "host": "laptop", "pid": 1, "version": "0.1.0"}
PLACEHOLDER = "@API_KEY@"


def wait_until(what: str, probe: Callable[[], Any], timeout: float = 10) -> Any:
    """Calls ``probe`` until its answer is true and returns that."""
    end = time.monotonic() + timeout
    while not (answer := probe()):
        assert time.monotonic() < end, f"not within {timeout} s: {what}"
        time.sleep(0.02)
    return answer


class Host:
    """One host below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tools = root / "tools"
        self.tools.mkdir(parents=True)
        (root / "systemd").mkdir()
        (root / "systemd/tester").write_text(str(os.getpid()))
        (root / "etc/systemd/system").mkdir(parents=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.constants = {
            "proto": 1,
            "root": str(root),
            "python": sys.executable,
            "systemctl": self._tool("systemctl", f'exec {sys.executable} -I -S {HERE}/fake_systemctl.py {root} "$@"'),
            "systemd_run": self._tool("systemd-run", f'exec {sys.executable} -I -S {HERE}/fake_guard.py {root} "$@"'),
            "journalctl": self._tool("journalctl", 'echo "-- cursor: s=1;i=2"'),
        }

    def _tool(self, name: str, line: str) -> str:
        path = self.tools / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)
        return str(path)

    def install(self, pyz: bytes | None = None) -> dict[str, Any]:
        """Installs through the loader, as ``adopt`` does on a host that has nothing yet."""
        request = {"pyz_b64": base64.b64encode(pyz or bundle.pyz()).decode(), "install": self.constants}
        done = subprocess.run(
            bundle.loader_argv(sys.executable, "install"),
            input=bundle.loader_payload("ddtune.onhost.main") + json.dumps(request).encode(),
            capture_output=True,
            timeout=30,
            check=True,
        )
        return dict(json.loads(done.stdout))

    def write_unit(self, *flags: str, exec_start: str | None = None, settings: str = "") -> None:
        """The unit file of a service with the small engine, and a daemon-reload."""
        command = exec_start or f"{sys.executable} -m sglang.launch_server --port {self.port} {' '.join(flags)}"
        (self.root / "etc/systemd/system" / UNIT).write_text(
            f"[Service]\nEnvironment=PYTHONPATH={HERE}/engine\nEnvironment=SGLANG_DDTREE_MAX_TOPK=4\n"
            f"ExecStart={command}\n{settings}"
        )
        self.systemctl("daemon-reload")

    def systemctl(self, *arguments: str) -> str:
        done = subprocess.run([self.constants["systemctl"], *arguments], capture_output=True, text=True, check=True)
        return done.stdout

    def start(self) -> int:
        """Starts the service and waits until its engine listens; its main pid."""
        self.systemctl("start", UNIT)
        wait_until("the engine listens", self.listens)
        return self.pid()

    def listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def pid(self) -> int:
        return int(self.systemctl("show", "-P", "MainPID", UNIT))

    def invocation(self) -> str:
        return self.systemctl("show", "-P", "InvocationID", UNIT).strip()

    def argv(self) -> list[str]:
        return Path(f"/proc/{self.pid()}/cmdline").read_text().split("\0")[:-1]

    def raw(self, data: bytes) -> tuple[dict[str, Any], subprocess.CompletedProcess[bytes]]:
        """The helper's answer to exactly ``data``."""
        done = subprocess.run(
            [self.root / "usr/local/libexec/ddtune-host"], input=data, capture_output=True, timeout=60
        )
        return json.loads(done.stdout), done

    def call(self, verb: str, unit: str | None = UNIT, **fields: Any) -> dict[str, Any]:
        """The helper's answer to a good request; nothing may be said but it."""
        answer, done = self.raw(json.dumps({"proto": 1, "verb": verb, "unit": unit, **fields}).encode())
        assert done.returncode == 0
        assert done.stderr == b""
        return answer

    def ok(self, verb: str, **fields: Any) -> dict[str, Any]:
        answer = self.call(verb, **fields)
        assert answer["ok"], answer
        return answer

    def viewed(self, verb: str, **fields: Any) -> dict[str, Any]:
        """What a viewer's helper answers, good or bad."""
        request = json.dumps({"proto": 1, "verb": verb, "unit": UNIT, **fields}).encode()
        program = self.root / "usr/local/libexec/ddtune-host-ro"
        return dict(json.loads(subprocess.run([program], input=request, capture_output=True, check=True).stdout))

    def refused(self, verb: str, **fields: Any) -> tuple[str, str]:
        answer = self.call(verb, **fields)
        assert not answer["ok"], answer
        return answer["cause"], answer["message"]

    def adopted(self, *flags: str, **fields: Any) -> str:
        """Installs, starts and adopts the service; the name of its release."""
        self.install()
        self.write_unit(*flags)
        self.start()
        return str(self.ok("adopt", profile="adopted", owner=OWNER, **fields)["release"])

    def put(self, *more: str, env: dict[str, str] | None = None, profile: str = "b16") -> str:
        """A release with more flags than the base."""
        base = self.ok("base")
        release = {
            "argv": [*base["argv"], *more],
            "cwd": base["cwd"],
            "env_set": env or {},
            "env_unset": [],
            "schema": 1,
        }
        return str(self.ok("put_release", release=release, meta={"profile": profile})["release"])

    def arm(self, candidate: str, op: str = "20261129185959-abc", **fields: Any) -> dict[str, Any]:
        order = {"op": op, "kind": "switch", "owner": OWNER, "candidate": candidate, "lease_s": 120,
                 "start_deadline_s": 60, "confirm_deadline_s": 600, "api_port": self.port, **fields}  # fmt: skip
        return self.call("arm", **order)

    def file(self, *parts: str) -> Path:
        return self.root.joinpath(*parts)

    def state_file(self, *parts: str) -> Path:
        return self.root.joinpath("var/lib/ddtune", UNIT, *parts)

    def end(self) -> None:
        """Ends every guard, by the tester's name that they look for, and the service."""
        (self.root / "systemd/tester").write_text("ended")
        with contextlib.suppress(ProcessLookupError):
            if pid := self.pid():
                os.killpg(pid, signal.SIGKILL)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
