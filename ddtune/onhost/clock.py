"""The host's clocks. Deadlines use :func:`boottime`, which neither stops in suspend nor follows the wall clock."""

from __future__ import annotations

import time

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boottime() -> float:
    """Seconds since the boot, suspend included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall() -> float:
    """Seconds since the epoch, for people."""
    return time.time()


def boot_id() -> str:
    """What names this boot; a deadline of another boot means nothing."""
    with open(_BOOT_ID, encoding="ascii") as file:
        return file.read().strip()
