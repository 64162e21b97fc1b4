"""A machine of its own from which somebody runs ddtune: another host name, another user, home and SSH key."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.guest import Guest
from tests.e2e.operator import HOST, Answer, config_text, ended, piped


class Machine:
    """``user`` on the booted ``guest``, whose key may log in to ``host`` as ``login``.

    ddtune runs there from this checkout as the guest sees it: what the guest changes in it is its own.
    """

    def __init__(
        self,
        guest: Guest,
        user: str,
        host: Guest,
        limits: Mapping[str, float] | None = None,
        login: str = "root",
        **fields: object,
    ) -> None:
        self.guest = guest
        self.user = user
        self.home = f"/home/{user}"
        guest.console(["useradd", "--create-home", "--shell", "/bin/bash", user])
        key = f"{self.home}/.ssh/id_ed25519"
        self.sh(f"mkdir -m 700 ~/.ssh && ssh-keygen -q -t ed25519 -N '' -f {key}")
        there = "/root" if login == "root" else f"/home/{login}"
        public = self.sh(f"cat {key}.pub").stdout
        host.console(["sh", "-c", f"cat >>{there}/.ssh/authorized_keys"], public)
        self.put(f"{self.home}/.ssh/known_hosts", host.known_hosts.read_text())
        known = {"ssh": f"{login}@127.0.0.1", "identity": key, "known_hosts": f"{self.home}/.ssh/known_hosts"}
        self.put(f"{self.config}/config.toml", config_text(host, limits, **known, **fields))

    @property
    def config(self) -> str:
        """The folder of this user's configuration."""
        return f"{self.home}/.config/ddtune"

    def put(self, path: str, text: str, mode: str = "600") -> None:
        """Writes a file of this user's."""
        self.sh(
            f"mkdir -p {shlex.quote(str(Path(path).parent))} && umask 077 && cat >{path} && chmod {mode} {path}", text
        )

    def sh(self, script: str, stdin: str = "", *, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Runs a shell's words as this user, in their home."""
        return self.guest.console(self._as_user(["sh", "-c", script]), stdin.encode(), timeout=300, check=check)

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Starts ``ddtune ARGS`` here and does not wait for it."""
        words = self._as_user([sys.executable, "-m", "ddtune.cli.main", *args])
        return piped([*self.guest.ssh_argv(), "root@127.0.0.1", shlex.join(words)])

    def run(self, *args: str, timeout: float = 240) -> Answer:
        """Runs ``ddtune ARGS`` here to its end."""
        return ended(self.start(*args), timeout)

    def status(self) -> Any:
        """What ``ddtune status --json`` says to this user."""
        answer = self.run("status", HOST, "--json")
        assert answer.code == 0, answer
        return answer.json

    def _as_user(self, words: list[str]) -> list[str]:
        return ["runuser", "-u", self.user, "--", "env", "-C", self.home, f"HOME={self.home}", f"USER={self.user}",
                f"LOGNAME={self.user}", "LANG=C.UTF-8", *words]  # fmt: skip
