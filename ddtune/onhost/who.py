"""Who acted on a service outside of ddtune, as far as the host's journal tells: what sudo wrote, and who logged in.

systemd itself does not say who asked it for a stop or a start.
"""

from __future__ import annotations

import re
import subprocess
from typing import Optional

from . import clock
from .journal import parse
from .paths import Install
from .redact import redact_text

_LIMIT_S = 2.0
_BEFORE_S = 120
_LINES = 400
_TEXT = 200
# What was not allowed has its reason where the first field would be: it names nobody who acted.
_SUDO = re.compile(r"^\s*(\S+) : (?:[A-Z]+=[^;]*;\s)*?USER=(\S+) ; (?:[A-Z]+=[^;]*;\s)*?COMMAND=(.*)$")
_LOGIN = re.compile(r"^Accepted \S+ for (\S+) from (\S+) ")
# Anybody may call a program of their own `sudo` or `sshd`: these are run by root, or are root's files.
_BY_SUDO = (
    *("_COMM=sudo", "_UID=0", "+"),
    *("_COMM=sudo", "_EXE=/usr/bin/sudo", "_EXE=/bin/sudo", "_EXE=/usr/local/bin/sudo"),
)
# OpenSSH 9.8 gave each login a program of its own.
_BY_SSHD = ("_COMM=sshd", "_COMM=sshd-session", "_UID=0")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def acted(install: Install, unit: str, within_s: int = _BEFORE_S) -> Optional[str]:
    """One sentence, or None where the journal names nobody. Never raises."""
    since = f"@{int(clock.wall()) - within_s}"
    sudo = _messages(install, since, *_BY_SUDO)
    named = unit[: -len(".service")]
    for text in reversed(sudo):
        match = _SUDO.match(text)
        if match and (named in match[3] or "/etc/systemd/" in match[3]) and "ddtune-host" not in match[3]:
            return _clean(f"{match[1]} ran as {match[2]}, by sudo: {match[3]}")
    logins = [match for text in _messages(install, since, *_BY_SSHD) if (match := _LOGIN.match(text))]
    found = list(dict.fromkeys(f"{match[1]} from {match[2]}" for match in logins))
    return _clean(f"the journal does not say who; logged in shortly before: {', '.join(found[-4:])}") if found else None


def _clean(text: str) -> str:
    return _CONTROL.sub("?", redact_text(text))[:_TEXT]


def _messages(install: Install, since: str, *matches: str) -> list[str]:
    argv = [install.journalctl, "--no-pager", "-o", "json", "-n", str(_LINES), "--since", since, *matches]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [entry.text for line in done.stdout.splitlines() if (entry := parse(line, "unit"))]
