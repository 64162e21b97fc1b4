"""What the configuration says of a host, as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Limits:
    """Time limits of a transaction in seconds, before scaling.

    Only the embedded host scales them; ``lease_s`` and ``progress_s`` never fall under 10 real seconds.
    """

    drain_s: float = 30.0
    lease_s: float = 120.0
    renew_s: float = 10.0
    confirm_deadline_s: float = 3600.0
    start_deadline_s: float = 1800.0
    progress_s: float = 600.0
    stop_grace_s: float = 5.0
    stop_timeout_s: float = 45.0
    probation_s: float = 3 * 86400.0
    soak_s: float | None = None
    soak_requests: int | None = None

    def scaled(self, clock_scale: float) -> Limits:
        """These limits on a host whose engine's clock runs ``clock_scale`` times as fast as ours."""
        if clock_scale == 1:
            return self
        return Limits(
            drain_s=self.drain_s / clock_scale,
            lease_s=max(10.0, self.lease_s / clock_scale),
            renew_s=max(1.0, self.renew_s / clock_scale),
            # What a gate does between its requests takes as long as ever.
            confirm_deadline_s=max(300.0, self.confirm_deadline_s / clock_scale),
            start_deadline_s=max(30.0, self.start_deadline_s / clock_scale),
            progress_s=max(10.0, self.progress_s / clock_scale),
            # The kill path after a fatal line is judged in real seconds.
            stop_grace_s=self.stop_grace_s,
            stop_timeout_s=self.stop_timeout_s,
            probation_s=self.probation_s,
            soak_s=None if self.soak_s is None else self.soak_s / clock_scale,
            soak_requests=self.soak_requests,
        )


@dataclass(frozen=True)
class HostConfig:
    """One host as ddtune reaches it.

    ``ssh`` is an alias of OpenSSH's configuration or a host name, without user, port and brackets.
    ``root`` is a prefix of every path on the host: empty on a real one, a private folder on the embedded one.
    ``known_hosts`` and ``identity`` are files that override what OpenSSH's configuration says.
    ``clock_scale`` is how many of the engine's seconds pass in one of ours: 1 on a real host.
    ``write``: True opens the dashboard writable, False forbids every change, None is neither.
    """

    name: str
    ssh: str
    unit: str | None = None
    api_port: int = 30000
    api_key_file: str | None = None
    traffic: Literal["open", "held"] = "open"
    protected: bool = False
    confirm_login: Literal["fresh", "same"] = "fresh"
    write: bool | None = None
    limits: Limits = field(default_factory=Limits)
    port: int | None = None
    user: str | None = None
    identity: Path | None = None
    known_hosts: Path | None = None
    root: str = ""
    python: str = "/usr/bin/python3"
    simulated: bool = False
    clock_scale: float = 1.0
    nvml_source: Path | None = None

    @property
    def read_only(self) -> bool:
        """Whether nothing on this host may be changed by ddtune, whoever asks."""
        return self.write is False


@dataclass(frozen=True)
class ScreenConfig:
    """How the dashboard is shown: its colours by name, and keys by the ids of their bindings."""

    theme: str = "dark"
    keys: Mapping[str, str] = field(default_factory=dict)
