"""A guest whose service is under ddtune, and what the tests ask of it without ddtune's help."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.guest import Guest, booted, wait_until
from tests.e2e.operator import HOST, Operator
from tests.e2e.unit import UNIT
from tests.gates import SHORTENED, shorten

BUDGET = "--speculative-ddtree-budget"
# Short enough for tests, and long enough that a busy machine does not meet them.
LIMITS = {
    "drain_s": 1,
    "lease_s": 12,
    "renew_s": 2,
    "confirm_deadline_s": 240,
    "start_deadline_s": 120,
    "progress_s": 60,
    "soak_s": 1,
    "soak_requests": 8,
}
STATE = f"/run/ddtune/{UNIT}/txn.json"


class Service:
    """The service of one guest, adopted, and the operator who changes it."""

    def __init__(self, guest: Guest, operator: Operator) -> None:
        self.guest = guest
        self.operator = operator

    def txn(self) -> dict[str, Any]:
        """txn.json as it lies in the guest, read without a login; empty when there is none."""
        try:
            return dict(json.loads(self.guest.file(STATE).read_bytes()))
        except (OSError, ValueError):
            return {}

    def budget(self) -> str | None:
        """The tree budget of what runs, from the main process; None without a main process or without a tree."""
        argv = self.guest.main_argv()
        return argv[argv.index(BUDGET) + 1] if BUDGET in argv else None

    def invocation(self) -> str:
        """The id of the unit's current start."""
        return self.guest.show("InvocationID")

    def wait_ready(self, timeout: float = 60) -> None:
        """Returns when the API takes requests."""
        wait_until("the service serves", self.guest.ready, timeout)

    def journal(self) -> list[tuple[float, str]]:
        """The unit's journal of this boot: CLOCK_MONOTONIC seconds and text of each line."""
        lines = self.guest.out(["journalctl", "--no-pager", "-b", "-u", UNIT, "-o", "json"]).splitlines()
        entries = [json.loads(line) for line in lines]
        return [(int(entry["__MONOTONIC_TIMESTAMP"]) / 1e6, str(entry.get("MESSAGE"))) for entry in entries]

    def status(self) -> Any:
        """What ``ddtune status --json`` says."""
        answer = self.operator.run("status", HOST, "--json")
        assert answer.code == 0, answer
        return answer.json

    def history(self) -> list[dict[str, Any]]:
        """What ``ddtune history --json`` says, oldest first."""
        answer = self.operator.run("history", HOST, "--json")
        assert answer.code == 0, answer
        return list(answer.json["history"])

    def switch(self, profile: str, *options: str, timeout: float = 150) -> tuple[int, Any]:
        """Exit code and JSON of a whole switch."""
        answer = self.operator.run("switch", HOST, profile, "--yes", "--json", *options, timeout=timeout)
        return answer.code, answer.json

    def runs(self, budget: str | None) -> bool:
        """Whether the service serves, with this tree budget."""
        return self.guest.ready() and self.budget() == budget


def install(guest: Guest, flags: Sequence[str] = (), **environment: str) -> None:
    """Puts the engine's unit into the guest, enabled and serving."""
    guest.install_unit(flags=flags, **environment)
    guest.console(["systemctl", "enable", "--now", UNIT])
    wait_until("the service serves", guest.ready, 60)


@contextlib.contextmanager
def adopted(folder: Path, limits: dict[str, float] | None = None, **environment: str) -> Iterator[Service]:
    """A fresh guest with its service on b8-nvls' flags and adopted; its operator's gates are short."""
    with booted(folder) as guest:
        install(guest, **environment)
        service = Service(guest, Operator(guest, folder / "operator", LIMITS | (limits or {})))
        shorten(service.operator.profiles, *SHORTENED)
        answer = service.operator.run("adopt", HOST, "--json", timeout=120)
        assert answer.code == 0, answer
        yield service
