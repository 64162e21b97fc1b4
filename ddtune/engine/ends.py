"""How the unit ended, in systemd's and the kernel's words: asked or not, and whether memory was the reason. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddtune.engine.model import LogLine

_EXITED = re.compile(r"^\S+\.service: Main process exited, code=(?P<code>\w+), status=(?P<status>\d+)")
_ASKED = re.compile(r"^Stopping ")
_KERNEL_OOM = re.compile(r"[Oo]ut of memory: Kill(?:ed)? process (\d+)|oom-kill:|oom_reaper: reaped process (\d+)")
CONSEQUENCE = re.compile(
    r"start-limit-hit|Start request repeated too quickly|Scheduled restart job|Main process exited"
    r"|Failed with result|A process of this unit has been killed by the OOM killer"
)
"""What systemd says because the service ended: never its reason."""
_UNIT_OOM = re.compile(r"has been killed by the OOM killer|Failed with result 'oom-kill'")
_WINDOW_S = 30.0


def is_systemds(line: LogLine) -> bool:
    """Whether systemd itself may have written ``line``: a service can print such words too."""
    return line.source == "unit" and line.pid in (1, None)


def unasked(unit: Sequence[LogLine]) -> tuple[int, str, int] | None:
    """Place, code (``exited``, ``killed``, ``dumped``) and status of the first end that nobody asked for, or None."""
    asked = False
    for place, line in enumerate(unit):
        if not is_systemds(line):
            continue
        asked = asked or _ASKED.match(line.text) is not None
        found = _EXITED.match(line.text)
        if found and not asked and not (found["code"] == "exited" and found["status"] == "0"):
            return place, found["code"], int(found["status"])
    return None


def out_of_memory(lines: Sequence[LogLine], at: float) -> LogLine | None:
    """The line near ``at`` in which the kernel, or systemd for it, says that it killed for want of memory."""
    for line in lines:
        near = abs(line.at - at) <= _WINDOW_S
        kernel = line.source == "kernel" and _KERNEL_OOM.search(line.text)
        if near and (kernel or (is_systemds(line) and _UNIT_OOM.search(line.text))):
            return line
    return None
