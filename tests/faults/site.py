"""An adopted service that the fault tests break, and how what it does is read back."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.guest import Guest, booted, wait_until
from tests.e2e.onhost import RUN, STATE, OnHost
from tests.e2e.operator import HOST, Operator, write_config
from tests.e2e.service import Service, install
from tests.e2e.unit import UNIT
from tests.faults import broken

LIMITS = {
    "drain_s": 2,
    "lease_s": 10,
    "renew_s": 1,
    "confirm_deadline_s": 240,
    "start_deadline_s": 60,
    "progress_s": 30,
    "stop_timeout_s": 15,
    "soak_s": 1,
    "soak_requests": 8,
}
# Each budget of the tests' own profiles has its fault; graphs are sound below budget 9.
SCENARIO = ",".join(
    f"@budget=={budget}:{fault}"
    for budget, fault in ((2, "hang:120"), (3, "garbage"), (4, "wrong"), (5, "empty"), (6, "accept_one"))
)
ENGINE = {"DDTUNE_SIM_SPEED": "100", "DDTUNE_SIM_TRAFFIC": "0", "DDTUNE_SIM_SCENARIO": SCENARIO}
STABLE = "8"
GOOD = "t7"
_serial = itertools.count(1)
ENDS = ("committed", "rolled_back", "rollback_failed", "host_action_required", "aborted", "late_crash")


class Site(Service):
    """The service, its operator, and the on-host programs behind both. ``b8-nvls`` (budget 8) is stable."""

    def __init__(self, guest: Guest, operator: Operator) -> None:
        super().__init__(guest, operator)
        self.host = OnHost(guest)
        self.known = 0
        self.before: str | None = None
        profiles = operator.config.parent / "profiles"
        profiles.mkdir(exist_ok=True)
        for budget in range(2, 8):
            _profile(profiles / f"t{budget}.toml", budget)

    @contextlib.contextmanager
    def limits(self, **limits: float) -> Iterator[None]:
        """The operator's configuration with other limits."""
        before = self.operator.config.read_text()
        write_config(self.guest, self.operator.folder, LIMITS | limits)
        try:
            yield
        finally:
            self.operator.config.write_text(before)

    def stable(self) -> str:
        """The release that the link ``stable`` names, read over a new login."""
        return os.path.basename(self.guest.ssh(["readlink", f"{STATE}/stable"]).stdout.decode().strip())

    def lines(self) -> list[dict[str, Any]]:
        """The history since this test began, read over a new login."""
        text = self.guest.ssh(["cat", f"{STATE}/history.jsonl"], check=False).stdout.decode()
        return [json.loads(line) for line in text.splitlines()][self.known :]

    def ends(self, op: str | None = None) -> list[tuple[str, str | None]]:
        """Event and cause of each end since this test began."""
        lines = [line for line in self.lines() if line["event"] in ENDS and op in (None, line["op"])]
        return [(line["event"], line["cause"]) for line in lines]

    def begin(self) -> None:
        """From here on lines of the history are this test's."""
        self.guest.console(["sh", "-c", f"rm -f {STATE}/quarantine/*.json"])
        self.known = 0
        self.known = len(self.lines())

    def sound(self) -> bool:
        """Stable serves, nothing is open, and no fault of an earlier test is left."""
        with contextlib.suppress(AssertionError, OSError, subprocess.TimeoutExpired):
            txn = self.txn()
            return (not txn or txn["settled"]) and self.runs(STABLE) and self.original == self.stable()
        return False

    def remember(self) -> None:
        """What is stable now is what every test has to leave behind."""
        self.original = self.stable()

    def look(self) -> list[str]:
        """What runs, what is stable and how it ended, over a new login."""
        main = f"cat /proc/$(systemctl show -P MainPID {UNIT})/cmdline"
        argv = self.guest.ssh(["sh", "-c", main], check=False).stdout.decode().split("\0")[:-1]
        budget = argv[argv.index("--speculative-ddtree-budget") + 1] if "--speculative-ddtree-budget" in argv else None
        runs = f"runs budget {budget}" if argv else f"service {self.guest.show('ActiveState')}"
        ends = " ".join(f"{event}({cause})" if cause else event for event, cause in self.ends())
        return [runs, f"stable {self.stable()[:8]}", f"history: {ends or 'no end'}"]

    def show_down(self) -> bool:
        """The service has no process and none is on its way."""
        return self.guest.show("ActiveState") in ("inactive", "failed")

    def settled(self, op: str, limit_s: float = 60) -> dict[str, Any]:
        """The transaction once nothing is left to do."""
        return self.host.wait_settled(op, limit_s)

    def back(self, op: str, cause: str | Sequence[str] | None = None, limit_s: float = 60) -> dict[str, Any]:
        """The transaction ``op``, rolled back, with stable serving and exactly one end in the history."""
        txn = self.settled(op, limit_s)
        causes = (cause,) if isinstance(cause, str) else cause
        assert txn["state"] == "ROLLED_BACK", (txn["state"], txn["cause"], txn["evidence"])
        assert causes is None or txn["cause"] in causes, (txn["cause"], txn["evidence"])
        # The guard goes by an answered generation, which an engine gives a moment before it says that it is ready.
        wait_until("stable says that it is ready", lambda: self.runs(STABLE), 10, 0.05)
        assert self.stable() == self.original
        assert [event for event, _ in self.ends(op)] in (["rolled_back"], ["aborted"])
        assert not self.guest.file(f"{RUN}/trial").is_symlink()
        return txn

    def candidate(self, budget: int = 7, *more: str) -> str:
        """A release of its own: one that no other test has brought into quarantine."""
        return self.host.put(budget, *more, FAULT=str(next(_serial)))

    def trial(self, budget: int = 7, **fields: Any) -> str:
        """A helper-driven trial whose candidate serves; its op."""
        op = self.host.trial(self.candidate(budget), **fields)
        self.host.wait_ready(op)
        return op

    def console(self, *argv: str, stdin: bytes = b"", check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Runs ``argv`` in the guest without a login, as at its console."""
        return self.guest.console(argv, stdin, check=check)

    def stamp(self) -> Path:
        """A moment of the guest's files, for ``changed``."""
        path = self.guest.folder / "stamp"
        path.write_text("")
        return path

    def changed(self, stamp: Path) -> list[str]:
        """What of the guest's own files was written, made or removed since ``stamp``, but for what is systemd's.

        The engine's readings, journald's files and the traces of a login are theirs.
        """
        theirs = (
            *(
                "/var/log/",
                "/run/log/",
                "/run/systemd",
                "/run/user",
                "/run/dbus",
                "/run/sshd",
                "/run/utmp",
                "/run/motd",
            ),
            *("/run/sglang", "/home/sglang", "/tmp", "/var/lib/systemd/", "/run/sudo", "/dev/"),
        )
        written = Path(f"/proc/{self.guest._keeper.pid}/root{self.guest._base}/up")
        found = []
        for root, prefix in ((written, ""), (self.guest.file("/run"), "/run")):
            done = subprocess.run(
                ["find", f"{root}/.", "-xdev", "-newercm", stamp], capture_output=True, text=True, check=False
            )
            found += [prefix + path.removeprefix(f"{root}/.") for path in done.stdout.splitlines()]
        return [path for path in found if path not in ("", "/run", "/var/log") and not path.startswith(theirs)]

    def collectors(self) -> list[int]:
        """Programs of ddtune that were sent along and still run in the guest, as this machine numbers them."""
        return [
            pid for pid, argv in self.processes() if "-c" in argv and any("zlib.decompress" in word for word in argv)
        ]

    def processes(self) -> Iterator[tuple[int, list[str]]]:
        """The guest's processes as this machine numbers them, and their arguments."""
        space = os.readlink(f"/proc/{self.guest.init_pid}/ns/pid")
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{entry}/ns/pid") == space:
                    yield int(entry), Path(f"/proc/{entry}/cmdline").read_text(errors="replace").split("\0")

    def programs(self) -> dict[int, list[str]]:
        """The guest's on-host programs that run now: this machine's pids and their arguments behind the zipapp."""
        found = {}
        for pid, argv in self.processes():
            zipapp = next((at for at, word in enumerate(argv[:4]) if word.endswith("ddtune-onhost.pyz")), None)
            if zipapp is not None:
                found[pid] = argv[zipapp + 1 :]
        return found

    def start_switch(self, profile: str = GOOD, *options: str) -> subprocess.Popen[str]:
        """A controller on its way."""
        self.before = self.txn().get("op")
        return self.operator.start("switch", HOST, profile, "--yes", "--json", *options)

    def until(self, process: subprocess.Popen[str], what: str, reached: Any, limit_s: float = 200) -> dict[str, Any]:
        """Waits until txn.json of a started switch says so, never one of before it; the transaction as it is then."""

        def there() -> bool:
            txn = self.txn()
            return txn.get("op") != self.before and bool(reached(txn))

        wait_until(what, lambda: there() or process.poll() is not None, limit_s, every=0.003)
        assert process.poll() is None, process.communicate()
        return self.txn()


def reached(state: str, **facts: bool) -> Any:
    """Whether a transaction stands in ``state``; ``facts`` are fields that must be set or not."""
    return lambda txn: txn.get("state") == state and all(bool(txn.get(name)) == is_ for name, is_ in facts.items())


def kill(process: subprocess.Popen[str]) -> float:
    """kill -9 of a controller; the moment of it."""
    process.kill()
    process.communicate()
    return time.monotonic()


def _profile(path: Path, budget: int) -> None:
    path.write_text(
        f'[axes]\nalgorithm = "ddtree"\nbudget = {budget}\ntopk = 4\ndraft_window = 2048\n'
        "graphs = true\nnvls = true\nmax_running = 128\n[gate]\nconcurrency = [1, 8]\n"
    )


def adopt(guest: Guest, operator: Operator, flags: Sequence[str] = (), **environment: str) -> Site:
    """Puts a service into a booted guest, under ddtune, and under broken programs where the run asks for them."""
    install(guest, flags, **(ENGINE | environment))
    site = Site(guest, operator)
    answer = site.operator.run("adopt", HOST, "--json", timeout=120)
    assert answer.code == 0, answer
    broken.install(guest, broken.asked())
    site.remember()
    return site


@contextlib.contextmanager
def adopted(folder: Path, limits: Mapping[str, float] | None = None, **environment: str) -> Iterator[Site]:
    """A guest of its own with its service adopted."""
    with booted(folder) as guest:
        yield adopt(guest, Operator(guest, folder / "operator", LIMITS | dict(limits or {})), **environment)


__all__ = ["HOST", "RUN", "STATE", "UNIT", "Site", "adopt", "adopted", "kill", "reached"]
