"""What an adoption by any login looks like from outside, for the tests of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.guest import HERE, Guest, wait_until
from tests.e2e.host_files import Entry, changes, snapshot
from tests.e2e.kinds import Written
from tests.e2e.operator import HOST, Operator
from tests.e2e.service import LIMITS
from tests.gates import SHORTENED, shorten

# A start sets these anew, and a shell that becomes the engine has some for itself.
PER_START = {"INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "PWD", "OLDPWD", "SHLVL", "_"}
HELPER, SUDOERS = "/usr/local/libexec/ddtune-host", "/etc/sudoers.d/ddtune"


class Site:
    """A service as somebody wrote it down, and the operator who comes to it as ``login``."""

    def __init__(self, guest: Guest, folder: Path, written: Written, login: str) -> None:
        self.guest = guest
        self.unit = written.unit
        self.login = login
        guest.put("/usr/local/bin/nvidia-smi", (HERE / "nvidia_smi.py").read_text(), "755")
        guest.console(["systemctl", "daemon-reload"])
        guest.console(["systemctl", "start", self.unit])
        wait_until("the service serves", guest.ready, 60)
        self.argv = guest.main_argv(self.unit)
        assert set(written.words) <= set(self.argv)
        self.env = self.environment()
        self.pid = guest.show("MainPID", self.unit)
        self.before: dict[str, Entry] = snapshot(guest)
        self.operator = Operator(guest, folder, LIMITS, ssh=f"{login}@127.0.0.1", unit=self.unit)
        shorten(self.operator.profiles, *SHORTENED)

    def environment(self) -> dict[str, str]:
        """The main process's environment without what every start sets anew."""
        return {name: value for name, value in self.guest.main_env(self.unit).items() if name not in PER_START}

    def run(self, *args: str, code: int = 0, timeout: float = 300) -> Any:
        """The JSON of a command that must end with ``code``."""
        answer = self.operator.run(args[0], HOST, *args[1:], "--json", timeout=timeout)
        assert answer.code == code, answer
        return answer.json

    def untouched(self) -> bool:
        """Whether the process of the beginning still runs."""
        return self.guest.show("MainPID", self.unit) == self.pid

    def check_as_before(self) -> None:
        """What runs has the command line and the environment of the beginning."""
        assert self.guest.main_argv(self.unit) == self.argv
        assert self.environment() == self.env

    def left(self) -> list[str]:
        """What is not as it was before ddtune came."""
        return changes(self.before, snapshot(self.guest))

    def install_by_script(self) -> str:
        """Root reads the printed installer and runs it; the script."""
        answer = self.operator.run("adopt", HOST, "--print-installer")
        assert answer.code == 0, answer
        self.guest.console(["sh", "-s"], answer.out.encode())
        return answer.out
