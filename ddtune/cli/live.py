"""One live reading for a command that then ends."""

from __future__ import annotations

from collections.abc import Callable

from ddtune.cli import report
from ddtune.config.model import HostConfig
from ddtune.live.snapshot import Snapshot

FIRST_READING_S = 20.0
RATES_S = 4.0


def read_once(config: HostConfig, *, as_json: bool) -> Snapshot:
    """A snapshot with rates in it where the host gives any; ends the command with 8 when the host cannot be reached."""
    snapshot = read_if_any(config)
    if snapshot is None or snapshot.link.state != "up":
        error = snapshot.link.error if snapshot else None
        message = error or f"{config.name} gave no reading within {FIRST_READING_S:.0f} s; is python3 there?"
        report.fail(message, report.UNREACHABLE, cause="unreachable", as_json=as_json, host=config.name)
    return snapshot


def read_if_any(config: HostConfig) -> Snapshot | None:
    """The same, or what there is of it; None where the host gives nothing."""
    return _read(config, is_whole)


def read_gpus(config: HostConfig) -> Snapshot | None:
    """What there is once the GPUs have been looked at; None where the host gives nothing."""
    return _read(config, lambda seen: bool(seen.gpus) or seen.gpu_source == "none")


def _read(config: HostConfig, wanted: Callable[[Snapshot], bool]) -> Snapshot | None:
    from ddtune.live.hub import Hub
    from ddtune.live.worker import Worker

    with Worker() as worker:
        hub = Hub(config, worker)
        hub.start()
        try:
            return hub.wait(wanted, FIRST_READING_S, RATES_S)
        finally:
            hub.stop()


def is_whole(snapshot: Snapshot) -> bool:
    """Whether GPUs, unit and what takes two readings have been read: a rate is by counters where there are any."""
    service = snapshot.service
    down = service.state not in (None, "active")
    gpus = snapshot.gpu_source == "none" or any(gpu.dram_util is not None for gpu in snapshot.gpus)
    rates = service.settled and service.tokens_per_s is not None
    return gpus and service.state is not None and (down or rates)
