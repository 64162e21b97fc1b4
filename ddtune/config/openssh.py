"""Which names OpenSSH's own configuration knows."""

from __future__ import annotations

import glob
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

_LINE = re.compile(r"^\s*(\w+)(?:\s*=\s*|\s+)(.*?)\s*$")
_DEPTH = 16


def aliases(config: Path | None = None) -> frozenset[str]:
    """The names that stand in ``Host`` lines without a wildcard, in files that are included too.

    A file that cannot be read, and a line that cannot be taken apart, is passed over: OpenSSH itself will say so.
    """
    return frozenset(_hosts(config or Path.home() / ".ssh" / "config", 0))


def _hosts(path: Path, depth: int) -> Iterator[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        try:
            values = shlex.split(match[2], comments=True)
        except ValueError:
            continue
        keyword = match[1].lower()
        if keyword == "host":
            yield from (value for value in values if not set(value) & set("*?!"))
        elif keyword == "include" and depth < _DEPTH:
            for value in values:
                yield from _included(value, depth)


def _included(pattern: str, depth: int) -> Iterator[str]:
    expanded = os.path.expanduser(pattern)
    # OpenSSH reads a relative Include from ~/.ssh wherever the including file lies.
    place = expanded if os.path.isabs(expanded) else str(Path.home() / ".ssh" / expanded)
    for found in sorted(glob.glob(place)):
        yield from _hosts(Path(found), depth + 1)


def renames(name: str, timeout_s: float = 5.0) -> bool:
    """Whether OpenSSH gives ``name`` another host name, as a wildcard or Match block of its configuration does.

    ``ssh -G`` answers 0 to an unknown name as well, with the name itself as the host name.
    """
    ssh = shutil.which("ssh")
    if not ssh:
        return False
    try:
        done = subprocess.run(
            [ssh, "-G", "--", name],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    hostname = re.search(r"^hostname (.*)$", done.stdout, re.MULTILINE)
    return done.returncode == 0 and hostname is not None and hostname[1].lower() != name.lower()
