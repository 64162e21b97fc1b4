"""An embedded host with a real engine on real GPUs, and ddtune's command line against it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddtune.onhost import releases
from ddtune.onhost.inspect_process import read_process, schedulers
from ddtune.onhost.paths import UnitPaths

START_S = 400.0
POLL_S = 0.05

# SmolLM2 copies a short text; a gate for a large model would judge the model and not the switch.
GATE = """
[gate]
concurrency = [16]
soak_s = 5
soak_requests = 16
coding = 0
max_tokens = 24
singles = 2
crowd = 4
tokens = 32
copy_words = 14
long_copy_words = 20
mixed = 4
wide = 0
sampled = 0
long_prompt_words = 0
long_tokens = 16
"""
NGRAM = '[axes]\nalgorithm = "ngram"\ndraft_tokens = {rows}\ngraphs = {graphs}\n'
PROFILES = {
    "ngram8": NGRAM.format(rows=8, graphs="true"),
    "ngram16": NGRAM.format(rows=16, graphs="true"),
    "ngram32": NGRAM.format(rows=32, graphs="true"),
    "ngram16-eager": NGRAM.format(rows=16, graphs="false"),
    "ar": '[axes]\nalgorithm = "none"\ngraphs = true\n',
    "wrong-flag": 'args = ["--no-such-flag", "1"]\n' + NGRAM.format(rows=8, graphs="true"),
}


@dataclass(frozen=True)
class Said:
    """What a command of ddtune's answered."""

    code: int
    json: Any
    seconds: float
    err: str


class Served:
    """One host. Its engine serves when this has been made; ``ready_s`` is how long that took."""

    def __init__(self, engine: str, folder: Path) -> None:
        profiles = folder / "profiles"
        profiles.mkdir(parents=True, exist_ok=True)
        for name, text in PROFILES.items():
            (profiles / f"{name}.toml").write_text(text + GATE)
        config = folder / "config.toml"
        config.touch()
        self.env = {**os.environ, "DDTUNE_CONFIG": str(config), "XDG_STATE_HOME": str(folder / "state")}
        self.engine = engine
        began = time.monotonic()
        self._log = (folder / "serve.log").open("wb")
        self._process = subprocess.Popen(
            self._argv("demo", "--serve", "--until-eof", "--json", "--engine", engine, "--gpus", "real"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=self.env,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.ready_s = round(time.monotonic() - began, 1)
        said = json.loads(line or b"{}")
        if "host" not in said or said.get("error"):
            raise RuntimeError(f"the host did not come up: {said.get('error')} {(folder / 'serve.log').read_text()}")
        self.name: str = said["host"]
        self.simulated: bool = said["simulated"]
        found = json.loads(self._descriptor().read_text())
        self.root, self.unit, self.port = Path(found["root"]), found["unit"], found["api_port"]

    def _argv(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "ddtune.cli.main", *args]

    def _descriptor(self) -> Path:
        from ddtune.config.paths import runtime_dir

        return runtime_dir() / "demo" / f"{self.name}.json"

    def close(self, journal: Path | None = None) -> None:
        """Ends the host; its journal may be kept."""
        if journal is not None:
            journal.write_bytes((self.root / "var/log/journal.jsonl").read_bytes())
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._log.close()

    def start(self, *args: str) -> subprocess.Popen[str]:
        """A command of ddtune's that runs on."""
        return subprocess.Popen(
            self._argv(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env
        )

    def run(self, *args: str, timeout: float = 400.0) -> Said:
        """A command with ``--json`` to its end."""
        return finish(self.start(*args, "--json"), timeout)

    def switch(self, profile: str, *options: str) -> Said:
        """A whole switch."""
        return self.run("switch", self.name, profile, "--yes", *options)

    def state(self, name: str) -> dict[str, Any]:
        """A file of ddtune's on the host, read without a login; empty where there is none."""
        try:
            return dict(json.loads((self.root / f"run/ddtune/{self.unit}/{name}").read_bytes()))
        except (OSError, ValueError):
            return {}

    def txn(self) -> dict[str, Any]:
        return self.state("txn.json")

    def stable(self) -> str:
        """Stable's release."""
        return releases.stable(UnitPaths(str(self.root), self.unit)) or ""

    def main_pid(self) -> int:
        """The pid of the engine's main process; 0 where there is none."""
        argv = [str(self.root / "usr/bin/systemctl"), "show", "-P", "MainPID", self.unit]
        return int(subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip() or 0)

    def argv(self) -> list[str]:
        """What the main process runs, from /proc."""
        process = read_process(self.main_pid())
        return list(process.argv) if process else []

    def schedulers(self) -> list[int]:
        """The engine's scheduler processes."""
        return [one["pid"] for one in schedulers(self.main_pid())]

    def healthy(self) -> bool:
        """Whether /health answers 200 within 5 s."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def text(self, path: str) -> str:
        """The body of an answer of the API."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as reply:
            return str(reply.read().decode())


def finish(process: subprocess.Popen[str], timeout: float) -> Said:
    """Waits for a command; its whole error output is kept, progress lines and all."""
    began = time.monotonic()
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.terminate()
        out, err = process.communicate(timeout=60)
    try:
        said = json.loads(out)
    except ValueError:
        said = {"unreadable": out[-500:]}
    return Said(process.returncode, said, round(time.monotonic() - began, 1), err[-4000:])


def wait(what: str, holds: Callable[[], Any], limit_s: float) -> Any:
    """Polls until it holds. Raises TimeoutError."""
    end = time.monotonic() + limit_s
    while not (found := holds()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {limit_s:.0f} s")
        time.sleep(POLL_S)
    return found


def together(*works: Callable[[], object]) -> None:
    """Runs each in a thread and waits for all."""
    threads = [threading.Thread(target=work) for work in works]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
