"""A guest that serves a small real model with a real SGLang, and the operator who changes it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.e2e.guest import Guest, booted, wait_until
from tests.e2e.operator import HOST, Operator
from tests.engine import profiles
from tests.engine.unit import CHECKOUT, UNIT, unit_file

# A start takes half a minute on two idle cores, and other tests may run beside it.
START_S = 300
LIMITS = {
    "drain_s": 5,
    "lease_s": 60,
    "renew_s": 3,
    "confirm_deadline_s": 900,
    "start_deadline_s": START_S,
    "progress_s": 150,
}
MAX_RUNNING = "--max-running-requests"
JOURNAL = CHECKOUT / "build/engine-journal.txt"


class ConsoleScript(Operator):
    """ddtune as it is installed: its console script, with nothing of the checkout on its path."""

    def __init__(self, guest: Guest, folder: Path) -> None:
        super().__init__(guest, folder, LIMITS, unit=UNIT)
        del self.env["PYTHONPATH"]
        profiles.write(folder / "profiles")

    def argv(self, *args: str) -> list[str]:
        """The command line that runs ``ddtune ARGS``."""
        return [str(Path(sys.executable).with_name("ddtune")), *args]


class Service:
    """The service of one guest."""

    def __init__(self, guest: Guest, operator: Operator) -> None:
        self.guest = guest
        self.operator = operator

    def wait_ready(self) -> None:
        """Returns when the engine takes requests."""
        wait_until("the engine serves", self.guest.ready, START_S, every=0.5)

    def max_running(self) -> str | None:
        """The limit that the main process runs with, read back from its command line."""
        argv = self.guest.main_argv(UNIT)
        return argv[argv.index(MAX_RUNNING) + 1] if MAX_RUNNING in argv else None

    def runs(self, max_running: str, model: str) -> bool:
        """Whether this is what serves, by its command line and by its own word on its model."""
        argv = self.guest.main_argv(UNIT)
        return (
            self.guest.ready() and self.max_running() == max_running and argv[argv.index("--model-path") + 1] == model
        )

    def invocation(self) -> str:
        """The id of the unit's current start."""
        return self.guest.show("InvocationID", UNIT)

    def txn(self) -> dict[str, Any]:
        """txn.json as it lies in the guest, read without a login; empty when there is none."""
        try:
            return dict(json.loads(self.guest.file(f"/run/ddtune/{UNIT}/txn.json").read_bytes()))
        except (OSError, ValueError):
            return {}

    def get(self, path: str) -> str:
        """What the engine's API answers."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.guest.api_port}{path}", timeout=60) as reply:
            return str(reply.read().decode())

    def post(self, path: str, body: Mapping[str, Any]) -> str:
        """What the engine's API answers to ``body``, a refusal too."""
        url = f"http://127.0.0.1:{self.guest.api_port}{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return str(reply.read().decode())
        except urllib.error.HTTPError as refused:
            return refused.read().decode()

    def processes(self, name: str) -> list[str]:
        """Pids, in the guest, of the unit's processes that call themselves ``name``."""
        found = self.guest.ssh(["pgrep", "-u", "sglang", "-f", f"^{name}"], check=False)
        return found.stdout.decode().split()

    def main_pid(self) -> str:
        """The pid of the HTTP server."""
        return self.guest.show("MainPID", UNIT)

    def status(self) -> Any:
        """What ``ddtune status --json`` says."""
        answer = self.operator.run("status", HOST, "--json")
        assert answer.code == 0, answer
        return answer.json

    def history(self, op: str) -> list[tuple[str, str | None]]:
        """Outcome and cause of the ends of an operation."""
        answer = self.operator.run("history", HOST, "--json")
        assert answer.code == 0, answer
        lines = [line for line in answer.json["history"] if line.get("op") == op and line.get("outcome")]
        return [(line["outcome"], line["cause"]) for line in lines]

    def switch(self, profile: str, *options: str) -> tuple[int, Any]:
        """Exit code and JSON of a whole switch."""
        answer = self.operator.run("switch", HOST, profile, "--yes", "--json", *options, timeout=900)
        return answer.code, answer.json

    def begin(self, profile: str, *options: str) -> subprocess.Popen[str]:
        """Starts a switch and returns once its trial has been started on the host."""
        before = self.txn().get("op")
        process = self.operator.start("switch", HOST, profile, "--yes", "--json", *options)

        def started() -> bool:
            assert process.poll() is None, process.communicate()
            txn = self.txn()
            return txn.get("op") != before and txn.get("state") == "TRIAL" and bool(txn.get("trial_invocation"))

        wait_until("the trial is started", started, START_S, every=0.5)
        return process

    def wait_gate(self) -> None:
        """Returns when the trial serves and is being gated."""
        wait_until("the trial is gated", lambda: self.txn().get("ready") and self.guest.ready(), START_S, every=0.5)

    @contextlib.contextmanager
    def load(self, count: int, tokens: int = 60) -> Iterator[None]:
        """``count`` generations at once, over and over, as users send them."""
        done = False

        def one(index: int) -> int:
            answers = 0
            while not done:
                body = {
                    "text": f"{index} {answers}. Once upon a time",
                    "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True},
                }
                with contextlib.suppress(OSError):
                    answers += json.loads(self.post("/generate", body))["meta_info"]["completion_tokens"] > 0
            return answers

        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            users = [pool.submit(one, index) for index in range(count)]
            try:
                yield
            finally:
                done = True
                concurrent.futures.wait(users)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Service]:
    """A fresh guest whose engine serves; not yet adopted."""
    with booted(folder) as guest:
        guest.put(f"/etc/systemd/system/{UNIT}", unit_file(guest.api_port))
        guest.ssh(["systemctl", "daemon-reload"])
        guest.ssh(["systemctl", "enable", "--now", UNIT])
        service = Service(guest, ConsoleScript(guest, folder / "operator"))
        service.wait_ready()
        try:
            yield service
        finally:
            JOURNAL.parent.mkdir(exist_ok=True)
            JOURNAL.write_text(guest.out(["journalctl", "--no-pager", "--output", "short-precise"]))
