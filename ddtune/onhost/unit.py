"""systemd as ddtune uses it: exactly these commands, each with a time limit."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from .paths import Install

WATCHED = (
    "ActiveState",
    "SubState",
    "Result",
    "MainPID",
    "InvocationID",
    "NRestarts",
    "ExecMainStatus",
    "ExecMainCode",
)


class SystemctlError(Exception):
    """systemctl said no, or did not answer in time; the text is its own."""


@dataclass(frozen=True)
class UnitState:
    """What ``systemctl show`` says of a service. ``main_pid`` is 0 once the main process is gone."""

    active: str
    sub: str
    result: str
    main_pid: int
    invocation: str
    n_restarts: int
    exit_code: int
    exit_status: int

    @property
    def down(self) -> bool:
        """No process of the service is left and none is on its way."""
        return self.active in ("inactive", "failed")

    @property
    def running(self) -> bool:
        return self.active == "active" and self.sub == "running"


def parse_show(text: str) -> dict[str, str]:
    """``KEY=VALUE`` lines as a dictionary; a value may hold further ``=``, and each command of several."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator:
            # Of several commands each has a line of its own.
            more = value.startswith("{ ") and value not in found.get(key, value)
            found[key] = f"{found[key]}\n{value}" if more else value
    return found


def _number(value: str | None) -> int:
    return int(value) if value and value.isdecimal() else 0


def unit_state(props: dict[str, str]) -> UnitState:
    """The watched properties, typed."""
    return UnitState(
        active=props.get("ActiveState", "unknown"),
        sub=props.get("SubState", "unknown"),
        result=props.get("Result", "unknown"),
        main_pid=_number(props.get("MainPID")),
        invocation=props.get("InvocationID", ""),
        n_restarts=_number(props.get("NRestarts")),
        exit_code=_number(props.get("ExecMainCode")),
        exit_status=_number(props.get("ExecMainStatus")),
    )


@dataclass(frozen=True)
class Systemctl:
    """The service manager of this host, or the embedded host's stand-in for it."""

    install: Install

    def run(self, *arguments: str, limit_s: float = 15.0) -> str:
        """Standard output of ``systemctl ARGUMENTS``. Raises SystemctlError."""
        return self._call([self.install.systemctl, *arguments], limit_s)

    def _call(self, argv: list[str], limit_s: float) -> str:
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SystemctlError(f"{' '.join(argv[:3])} gave no answer in {limit_s:g} s") from error
        except OSError as error:
            raise SystemctlError(f"{argv[0]}: {error.strerror}") from error
        if done.returncode:
            raise SystemctlError(done.stderr.strip() or f"{' '.join(argv[:3])} ended with status {done.returncode}")
        return done.stdout

    def show(self, unit: str, *props: str) -> dict[str, str]:
        """The properties ``props`` of ``unit``, as text. An unknown unit answers with defaults."""
        return parse_show(self.run("--no-pager", "show", "-p", ",".join(props), unit))

    def state(self, unit: str) -> UnitState:
        return unit_state(self.show(unit, *WATCHED))

    def job(self, unit: str) -> str:
        """The job queued for ``unit`` and its state, as in ``stop running``; empty when there is none.

        All jobs are listed: systemctl would take ``unit`` for a pattern, and a backslash in it for an escape.
        """
        lines = self.run("--no-pager", "--no-legend", "--full", "list-jobs").splitlines()
        found = [words[2:4] for words in map(str.split, lines) if words[1:2] == [unit]]
        return " ".join(found[0]) if found else ""

    def start(self, unit: str) -> None:
        """Queue the start; systemctl does not wait for its end. So do ``stop`` and ``restart``."""
        self.run("start", "--no-block", unit, limit_s=600)

    def stop(self, unit: str, limit_s: float = 600) -> None:
        self.run("stop", "--no-block", unit, limit_s=limit_s)

    def restart(self, unit: str) -> None:
        self.run("restart", "--no-block", unit, limit_s=600)

    def reset_failed(self, unit: str) -> None:
        """Forget failures and the start limit's count. A unit that has none to forget is fine."""
        try:
            self.run("reset-failed", unit)
        except SystemctlError as error:
            if "not loaded" not in str(error):
                raise

    def kill(self, unit: str, signal: str = "KILL") -> None:
        """Send ``signal`` to every process of ``unit``'s cgroup."""
        self.run("kill", "-s", signal, unit)

    def daemon_reload(self) -> None:
        self.run("daemon-reload", limit_s=60)

    def run_guard(self, unit: str, op: str) -> None:
        """Start the guard of ``op`` as a service of its own. Raises SystemctlError when it cannot be executed."""
        properties = (
            "Type=exec",
            "Restart=always",
            "RestartSec=200ms",
            "StartLimitIntervalSec=0",
            "OOMScoreAdjust=-900",
        )
        flags = [word for entry in properties for word in ("-p", entry)]
        command = [self.install.python, "-I", self.install.pyz, "guard", unit, op]
        self._call([self.install.systemd_run, f"--unit={guard_unit(op)}", "--collect", *flags, *command], 30.0)


def guard_unit(op: str) -> str:
    """The name of the service that guards ``op``."""
    return f"ddtune-guard-{op}"
