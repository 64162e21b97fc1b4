"""Which Python of the host the programs are run with, as root: one that works, and that root alone can change."""

from __future__ import annotations

import glob
import os
import re
import subprocess
from dataclasses import dataclass, field
from typing import Optional

from . import trusted
from .context import RefusalError

_ASKED = (
    "import sys; specs = [getattr(one, '__spec__', None) for one in list(sys.modules.values())];"
    "print(*sys.path, *(getattr(spec, 'origin', None) for spec in specs), sep=chr(10));"
    "sys.exit(0 if sys.version_info >= (3, 9) else 9)"
)
_USUAL = re.compile(r"/usr/bin/python3(?:\.(\d+))?")
_LIMIT_S = 30.0


@dataclass(frozen=True)
class Chosen:
    """``python``, what it loads, and why it is not the one that was asked for, in a sentence."""

    python: str
    loads: list[str] = field(default_factory=list)
    note: Optional[str] = None


def choose(asked: str, root: str = "") -> Chosen:
    """``asked``, or one of the host's own where others than root could change that. Raises ``RefusalError``.

    An embedded host, below ``root``, has no other than that of whoever started it.
    """
    if root:
        return Chosen(asked, _loads(asked))
    # One that others can change is not run to be asked.
    why = trusted.judged([asked])
    loads = [] if why else _loads(asked)
    why = why or trusted.judged(loads)
    if not why:
        return Chosen(asked, loads)
    for other in _usual():
        if other == asked or trusted.judged([other]):
            continue
        try:
            loads = _loads(other)
        except RefusalError:
            continue
        if not trusted.judged(loads):
            return Chosen(other, loads, f"ddtune's programs run with {other} and not with {asked}: {why[0]}")
    raise RefusalError(
        "unknown",
        f"{asked} is no interpreter for root: {why[0]}; no other Python 3.9 or newer was found in /usr/bin that root"
        " alone can change: install one, or name one as python in the configuration of this host",
    )


def _usual() -> list[str]:
    """The distribution's interpreters, its own choice first and then the newest."""
    found = [match for path in glob.glob("/usr/bin/python3*") if (match := _USUAL.fullmatch(path))]
    return [match[0] for match in sorted(found, key=lambda match: -int(match[1] or 999))]


def _loads(python: str) -> list[str]:
    """The files and folders that ``python -I`` starts from. Raises ``RefusalError`` for one that cannot be used."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", _ASKED], stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        raise RefusalError("unknown", f"{python} cannot be run on this host") from None
    if done.returncode:
        raise RefusalError("unknown", f"{python} is older than Python 3.9 or does not work on this host")
    said = [os.fsdecode(line) for line in done.stdout.splitlines() if line.startswith(b"/")]
    return [*said, *(path for folder in said for path in trusted.at_each_start(folder))]
