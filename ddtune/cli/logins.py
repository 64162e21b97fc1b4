"""One login to a host, tried and told: the way there, its host key, and the Python that the collector needs."""

from __future__ import annotations

from dataclasses import dataclass

from ddtune.config.model import HostConfig

_KEYS = {"unknown_host_key": "unknown", "changed_host_key": "changed", "no_host_keys": "unknown"}
_VERSION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
_OLDEST = (3, 9)
_PYTHON_S = 20.0


@dataclass(frozen=True)
class Login:
    """How a login went. ``host_key`` is known, unknown or changed, None where it was never shown; ``cause`` and
    ``message`` say what failed, None when nothing did."""

    host: str
    rtt_ms: float | None = None
    host_key: str | None = None
    python: str | None = None
    cause: str | None = None
    message: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the host can be watched over this login."""
        return self.cause is None


async def try_login(config: HostConfig) -> Login:
    """Log in to ``config``'s host and leave again; nothing there is changed."""
    from ddtune.host.connect import connect
    from ddtune.host.errors import Unreachable
    from ddtune.live.target import target_of

    rtt_ms: float | None = None
    try:
        async with connect(target_of(config)) as conn:
            rtt_ms = round(await conn.rtt() * 1000, 1)
            done = await conn.run([config.python, "-I", "-c", _VERSION], timeout=_PYTHON_S)
    except Unreachable as error:
        key = "known" if rtt_ms is not None else _KEYS.get(error.cause)
        return Login(config.name, rtt_ms, key, None, error.cause, error.message)
    python = done.out.decode(errors="replace").strip()
    if done.rc != 0 or not python:
        why = f"{config.name} has no {config.python} that works ({done.said or f'status {done.rc}'}): install it, or"
        return Login(config.name, rtt_ms, "known", None, "no_python", f"{why} name another as python in config.toml.")
    if tuple(int(part) for part in python.split(".")[:2] if part.isdigit()) < _OLDEST:
        why = f"{config.python} on {config.name} is {python}, and ddtune needs 3.9 or newer:"
        return Login(
            config.name, rtt_ms, "known", python, "old_python", f"{why} name another as python in config.toml."
        )
    return Login(config.name, rtt_ms, "known", python)
