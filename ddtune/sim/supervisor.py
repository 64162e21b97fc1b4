"""The embedded host's systemd: loaded units, their files, jobs, OnFailure= and the environment that programs get."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from pathlib import Path

from ddtune.sim.box import Box
from ddtune.sim.journal import Journal
from ddtune.sim.supervisor_model import Job
from ddtune.sim.supervisor_service import Service
from ddtune.sim.unitfile import Config, find_drop_ins, read, stamps


class UnitError(Exception):
    """A request that cannot be met; ``code`` is systemctl's exit status for it."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class Supervisor:
    """Units below ``root``, whose output goes to ``journal`` by the socket ``stream``."""

    def __init__(self, root: Path, journal: Journal, stream: Path, base_env: Mapping[str, str]) -> None:
        self._folders = [root / "etc/systemd/system", root / "run/systemd/system"]
        self._journal = journal
        self._stream = stream
        self._base_env = dict(base_env)
        self._numbers = itertools.count(1)
        self._units: dict[str, Service] = {}

    # What a service needs.

    def log(self, service: Service, text: str, priority: int = 6) -> None:
        self._journal.manager(service.config.name, service.invocation, text, priority)

    def job(self, kind: str) -> Job:
        return Job(next(self._numbers), kind)

    def environment(self) -> dict[str, str]:
        return dict(self._base_env)

    async def box(self, service: Service) -> Box:
        return await Box.open(self._stream, service.config.name, service.invocation)

    def failed(self, service: Service) -> None:
        """Starts the units of OnFailure=, telling them what failed."""
        if service.config.on_failure:
            self.log(service, f"{service.config.name}: Triggering OnFailure= dependencies.")
        extra = {
            "MONITOR_UNIT": service.config.name,
            "MONITOR_SERVICE_RESULT": service.result,
            "MONITOR_INVOCATION_ID": service.invocation,
        }
        if service.ended is not None:
            extra |= {"MONITOR_EXIT_CODE": service.ended.how, "MONITOR_EXIT_STATUS": str(service.ended.status)}
        for name in service.config.on_failure:
            try:
                self.need(name).start(extra)
            except UnitError as error:
                self.log(service, f"{service.config.name}: Failed to enqueue OnFailure= job, ignoring: {error}", 4)

    def dead(self, service: Service) -> None:
        """Forgets an ended unit that nothing holds, as systemd's garbage collector does."""
        config = service.config
        if not config.wanted and (service.active == "inactive" or (service.active == "failed" and config.collect)):
            self._units.pop(config.name, None)

    # Units.

    def loaded(self) -> list[Service]:
        """All loaded units by name."""
        return [self._units[name] for name in sorted(self._units)]

    def find(self, name: str) -> Service | None:
        """A loaded unit."""
        return self._units.get(name)

    def peek(self, name: str) -> Service | None:
        """A loaded unit, or a passing view of one on disk; ``None`` where there is neither."""
        if (service := self._units.get(name)) is not None:
            return service
        config = read(name, self._folders)
        return None if config is None else Service(config, self)

    def need(self, name: str) -> Service:
        """A unit, loaded from disk where it is not yet. Raises UnitError."""
        service = self.peek(name)
        if service is None or not service.config.start:
            raise UnitError(f"Unit {name} not found.", 5)
        return self._units.setdefault(name, service)

    def held(self, name: str) -> Service:
        """A loaded unit. Raises UnitError."""
        service = self._units.get(name)
        if service is None:
            raise UnitError(f"Unit {name} not loaded.")
        return service

    def create(self, config: Config) -> Service:
        """A transient unit. Raises UnitError where the name is taken."""
        if config.name in self._units or read(config.name, self._folders) is not None:
            raise UnitError(f"Unit {config.name} was already loaded or has a fragment file.")
        service = self._units[config.name] = Service(config, self)
        return service

    def reload(self) -> None:
        """daemon-reload: reads the files of all loaded units again."""
        for name, service in list(self._units.items()):
            if service.config.transient:
                continue
            config = read(name, self._folders)
            if config is not None:
                service.config = config
            elif not service.busy:
                del self._units[name]

    def changed(self, service: Service) -> bool:
        """Whether files changed since they were read. A first drop-in folder goes unnoticed, as it does on systemd."""
        config = service.config
        if config.fragment is None:
            return False
        known = (config.fragment, *config.drop_ins)
        if stamps(known) != config.stamps:
            return True
        return bool(config.drop_ins) and find_drop_ins([config.name], self._folders) != config.drop_ins

    async def end(self) -> None:
        """Ends all units at once, for the host's own end."""
        await asyncio.gather(*(service.end() for service in self.loaded()))
