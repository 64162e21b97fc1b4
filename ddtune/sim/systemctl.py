"""systemctl and systemd-run: their command lines, their words and their exit statuses, as systemd 252 has them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ddtune.sim.cmdline import Answer, options, unit_name
from ddtune.sim.supervisor import Supervisor, UnitError
from ddtune.sim.supervisor_model import Job
from ddtune.sim.supervisor_service import Service
from ddtune.sim.supervisor_show import show
from ddtune.sim.unitfile import Command, Config, assign

VERSION = "systemd 252 (embedded)\n+PAM +SYSVINIT default-hierarchy=unified\n"
_VALUED = {"-p": "-p", "--property": "-p", "-P": "-P", "-s": "-s", "--signal": "-s", "--type": "-t", "-t": "-t"}
_VALUED |= {"--state": "--state"}
_RUN_VALUED = {"--unit": "--unit", "-u": "--unit", "-p": "-p", "--property": "-p", "-E": "-E", "--setenv": "-E"}

Found = dict[str, list[str]]


async def _wait(job: Job, name: str, answer: Answer) -> int:
    outcome = await asyncio.shield(job.done)
    if outcome == "done":
        return 0
    if outcome == "canceled":
        await answer.err(f"Job for {name} canceled.\n")
        return 1
    reason = "the control process exited with error code"
    if outcome == "limit":
        reason = "start of the service was attempted too often"
    await answer.err(
        f"Job for {name} failed because {reason}.\n"
        f'See "systemctl status {name}" and "journalctl -xeu {name}" for details.\n'
    )
    if outcome == "limit":
        await answer.err(
            f'To force a start use "systemctl reset-failed {name}"\nfollowed by "systemctl start {name}" again.\n'
        )
    return 1


class Systemctl:
    """systemctl on one supervisor."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def run(self, argv: list[str], answer: Answer) -> int:
        found, rest = options(argv, _VALUED)
        if "--version" in found:
            await answer.out(VERSION)
            return 0
        verb, names = (rest[0], [unit_name(name) for name in rest[1:]]) if rest else ("list-units", [])
        if verb == "daemon-reload":
            self._supervisor.reload()
            return 0
        if verb == "list-units":
            await answer.out(self._list(found, names))
            return 0
        if verb == "list-jobs":
            await answer.out(self._jobs(names))
            return 0
        handlers: dict[str, Callable[[str, Found, Answer], Awaitable[int]]] = {
            "show": self._show,
            "cat": self._cat,
            "is-active": self._is_active,
            "kill": self._kill,
            "reset-failed": self._reset,
        }
        codes = []
        for name in names or [""]:
            if verb in ("start", "stop", "restart"):
                codes.append(await self._change(verb, name, found, answer))
            elif verb in handlers:
                codes.append(await handlers[verb](name, found, answer))
            else:
                raise UnitError(f"Unknown command verb {verb}.")
        return max(codes)

    async def _show(self, name: str, found: Found, answer: Answer) -> int:
        asked = found.get("-p", []) + found.get("-P", [])
        wanted = [one.strip() for text in asked for one in text.split(",")]
        service = self._supervisor.peek(name) or Service(Config(name, kind=""), self._supervisor)
        changed = self._supervisor.changed(service)
        await answer.out(show(service, changed, wanted, value_only="-P" in found or "--value" in found))
        return 0

    async def _cat(self, name: str, _: Found, answer: Answer) -> int:
        service = self._supervisor.peek(name)
        if service is None or service.config.fragment is None:
            raise UnitError(f"No files found for {name}.")
        files = (service.config.fragment, *service.config.drop_ins)
        await answer.out("\n".join(f"# {path}\n{path.read_text()}" for path in files))
        return 0

    async def _is_active(self, name: str, _: Found, answer: Answer) -> int:
        service = self._supervisor.peek(name)
        active = service.active if service else "inactive"
        await answer.out(f"{active}\n")
        return 0 if active == "active" else 3

    async def _kill(self, name: str, found: Found, _: Answer) -> int:
        sig = found.get("-s", ["TERM"])[-1]
        try:
            number = int(sig) if sig.isdigit() else signal.Signals[f"SIG{sig.removeprefix('SIG')}"]
            reached = await self._supervisor.held(name).kill(number)
        except UnitError as error:
            raise UnitError(f"Failed to kill unit {name}: {error}") from None
        except KeyError:
            raise UnitError(f"Failed to parse signal string {sig}.") from None
        return 0 if reached else 1

    async def _reset(self, name: str, *_: object) -> int:
        try:
            self._supervisor.held(name).reset()
        except UnitError as error:
            raise UnitError(f"Failed to reset failed state of unit {name}: {error}") from None
        return 0

    async def _change(self, verb: str, name: str, found: Found, answer: Answer) -> int:
        try:
            service = self._supervisor.need(name)
        except UnitError as error:
            text = str(error) if verb != "stop" else f"Unit {name} not loaded."
            raise UnitError(f"Failed to {verb} {name}: {text}", error.code) from None
        if self._supervisor.changed(service):
            await answer.err(
                f"Warning: The unit file, source configuration file or drop-ins of {name} changed on disk. "
                "Run 'systemctl daemon-reload' to reload units.\n"
            )
        job = {"start": service.start, "stop": service.stop, "restart": service.restart}[verb]()
        return 0 if job is None or "--no-block" in found else await _wait(job, name, answer)

    def _list(self, found: Found, names: list[str]) -> str:
        states = [state for text in found.get("--state", []) for state in text.split(",")]
        chosen = [
            service
            for service in self._supervisor.loaded()
            if (not names or service.config.name in names)
            and (not states or service.sub in states or service.active in states)
        ]
        width = max((len(service.config.name) for service in chosen), default=0)
        return "".join(
            f"{one.config.name:<{width}} loaded {one.active} {one.sub} {one.config.description or one.config.name}\n"
            for one in chosen
        )

    def _jobs(self, names: list[str]) -> str:
        jobs = [(s.config.name, s.job) for s in self._supervisor.loaded() if s.job is not None]
        return "".join(
            f"{job.number} {name} {job.kind} {'running' if job.running else 'waiting'}\n"
            for name, job in jobs
            if not names or name in names
        )


async def systemd_run(supervisor: Supervisor, argv: list[str], answer: Answer) -> int:
    """systemd-run with a unit name: a transient service from ``-p`` assignments."""
    found, command = options(argv, _RUN_VALUED, posix=True)
    if not command or not found.get("--unit"):
        raise UnitError("Command line to execute required.")
    if not os.access(command[0], os.X_OK):
        raise UnitError(f"Failed to find executable {command[0]}: No such file or directory")
    name = unit_name(found["--unit"][-1])
    config = Config(name, description=" ".join(command), transient=True, collect="--collect" in found)
    config = replace(config, start=(Command(tuple(command)),))
    for text in found.get("-p", []):
        key, _, value = text.partition("=")
        try:
            config = assign(config, key, value)
        except (KeyError, ValueError):
            raise UnitError(f"Unknown assignment: {text}") from None
    for text in found.get("-E", []):
        config = replace(config, environment=(*config.environment, (text.partition("=")[0], text.partition("=")[2])))
    try:
        job = supervisor.create(config).start()
    except UnitError as error:
        raise UnitError(f"Failed to start transient service unit: {error}") from None
    if job is not None and "--no-block" not in found and await _wait(job, name, answer):
        return 1
    if "--quiet" not in found and "-q" not in found:
        await answer.err(f"Running as unit: {name}\n")
    return 0
