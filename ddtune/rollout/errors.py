"""How a transaction leaves its path."""

from __future__ import annotations

from ddtune.config.model import HostConfig
from ddtune.engine.model import Evidence


class TrialFailed(Exception):  # noqa: N818 (a verdict on the trial, no fault of ours)
    """The candidate failed, by the controller's own judgement. ``cause`` is an incident class."""

    def __init__(self, cause: str, message: str, evidence: tuple[Evidence, ...] = ()) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message
        self.evidence = evidence


class Refused(Exception):  # noqa: N818 (a refusal is an answer)
    """Nothing was touched. ``cause`` is an incident class, ``message`` one sentence."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message


def require_writable(config: HostConfig) -> None:
    """Raises Refused for a host that the configuration calls read-only."""
    if config.read_only:
        raise Refused(
            "read_only",
            f"{config.name} is read-only: the configuration says write = false, so nothing there is changed.",
        )


class UnknownProfile(Exception):  # noqa: N818 (reads as its pair above)
    """No profile has that name; the message names the nearest."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
