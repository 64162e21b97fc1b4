"""An adopted service driven through the helper alone, as any operator's side does, with no more of ddtune."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ddtune.engine.fatal import FATAL_PATTERNS
from ddtune.host import bundle
from tests.e2e.guest import Guest, booted, wait_until
from tests.e2e.unit import UNIT

PYTHON = "/usr/bin/python3"
HELPER = "/usr/local/libexec/ddtune-host"
STATE, RUN = f"/var/lib/ddtune/{UNIT}", f"/run/ddtune/{UNIT}"
OWNER = {"who": "ada", "host": "laptop", "pid": 1, "version": "0"}
CANARY = {
    "path": "/generate",
    "body": {"text": "The capital of France is", "sampling_params": {"temperature": 0, "max_new_tokens": 16}},
    "expect": None,
}
_serial = itertools.count(1)


class OnHost:
    """The on-host programs of one guest."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest

    def install(self) -> None:
        """Puts the programs on the guest and the running service under them."""
        tools = {name.replace("-", "_"): f"/usr/bin/{name}" for name in ("systemctl", "systemd-run", "journalctl")}
        constants = {"proto": 1, "root": "", "python": PYTHON, **tools}
        request = {"pyz_b64": base64.b64encode(bundle.pyz()).decode(), "install": constants}
        payload = bundle.loader_payload("ddtune.onhost.main") + json.dumps(request).encode()
        answer = self._answer(bundle.loader_argv(PYTHON, "install"), payload)
        assert answer["ok"], answer
        self.ok("adopt", profile="b8-nvls", owner=OWNER)

    def _answer(self, argv: list[str], stdin: bytes) -> dict[str, Any]:
        return dict(json.loads(self.guest.console(argv, stdin).stdout))

    def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        """The helper's answer to root."""
        return self._answer([HELPER], json.dumps({"proto": 1, "verb": verb, "unit": UNIT, **fields}).encode())

    def ok(self, verb: str, **fields: Any) -> dict[str, Any]:
        answer = self.call(verb, **fields)
        assert answer["ok"], answer
        return answer

    def put(self, budget: int, *more: str, **env: str) -> str:
        """A release with another budget, and what else is said."""
        base = self.ok("base")
        argv = list(base["argv"])
        argv[argv.index("--speculative-ddtree-budget") + 1] = str(budget)
        release = {"argv": [*argv, *more], "cwd": base["cwd"], "env_set": env, "env_unset": [], "schema": 1}
        return str(self.ok("put_release", release=release, meta={"profile": f"b{budget}"})["release"])

    def arm(self, candidate: str, **fields: Any) -> str:
        """An armed transaction's op."""
        op = f"20261129190000-{next(_serial):06x}"
        patterns = [{"cause": cause, "regex": regex} for cause, regex in FATAL_PATTERNS]
        order = {"op": op, "kind": "switch", "owner": OWNER, "candidate": candidate, "lease_s": 60,
                 "start_deadline_s": 60, "confirm_deadline_s": 300, "fatal_patterns": patterns, "canary": CANARY,
                 "restore_s": 60, "stop_timeout_s": 15, "api_port": self.guest.api_port, **fields}  # fmt: skip
        self.ok("arm", **order)
        return op

    def trial(self, candidate: str, **fields: Any) -> str:
        """A transaction whose candidate is starting; its op."""
        op = self.arm(candidate, **fields)
        for verb in ("swap", "stop", "start"):
            self.ok(verb, op=op)
        return op

    def txn(self) -> dict[str, Any]:
        """txn.json as it lies in the guest, read without a login; empty when there is none."""
        return self.file(f"{RUN}/txn.json")

    def file(self, path: str) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads(self.guest.file(path).read_bytes()))
        return {}

    def history(self, op: str) -> list[dict[str, Any]]:
        """The lines of ``op``, oldest first."""
        lines = self.guest.file(f"{STATE}/history.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["op"] == op]

    def budget(self) -> str | None:
        """What runs, by the main process's own command line."""
        argv = self.guest.main_argv()
        return argv[argv.index("--speculative-ddtree-budget") + 1] if argv else None

    def wait_settled(self, op: str, limit_s: float = 60) -> dict[str, Any]:
        """The transaction once nothing is left to do."""
        wait_until(f"{op} is settled", lambda: self.txn().get("op") != op or self.txn()["settled"], limit_s, 0.05)
        return self.txn()

    def wait_ready(self, op: str, limit_s: float = 60) -> None:
        """Marks the trial as ready once its API takes requests."""
        wait_until("the trial serves", self.guest.ready, limit_s)
        self.ok("ready", op=op)


@contextlib.contextmanager
def adopted(folder: Path, **environment: str) -> Iterator[OnHost]:
    """A guest whose service serves and is under the on-host programs."""
    with booted(folder) as guest:
        guest.install_unit(**environment)
        guest.console(["systemctl", "enable", "--now", UNIT])
        wait_until("the service serves", guest.ready, 60)
        host = OnHost(guest)
        host.install()
        yield host
