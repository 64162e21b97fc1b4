"""The watch as a service of systemd: its unit, and the signs of life that systemd waits for."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import socket
import sys
import time
from collections.abc import Callable, Sequence

WATCHDOG_S = 180
STOP_S = 150
"""Seconds that an asked end may take where no change runs: a beat on its way, and the word that it is over."""


class Beats:
    """Tells systemd's watchdog that this process lives while each of its watchers does."""

    def __init__(self, count: int) -> None:
        self._last = [time.monotonic()] * count
        self._told = 0.0
        self.ending = False
        """Somebody has asked for the end: systemd is to wait for it for as long as the watchers live."""

    def of(self, number: int) -> Callable[[], None]:
        """What the watcher ``number`` calls while it lives."""

        def beat() -> None:
            now = time.monotonic()
            self._last[number] = now
            if now - self._told > 10 and now - min(self._last) < WATCHDOG_S / 2:
                self._told = now
                more = f"\nEXTEND_TIMEOUT_USEC={STOP_S * 1_000_000}" if self.ending else ""
                tell_systemd(f"WATCHDOG=1{more}")

        return beat


def tell_systemd(text: str) -> None:
    """A word to the service manager that has started this process, where one did (sd_notify's datagram)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.connect("\0" + address[1:] if address.startswith("@") else address)
        one.send(text.encode())


def unit_text(hosts: Sequence[str], every_s: float, *, only_tell: bool) -> str:
    """A systemd unit that runs this watch as the user who asked for it, with the interpreter that runs now.

    ``hosts`` are addresses as ``ddtune.config.address`` takes them: names without spaces, line ends or quotes. Raises
    ConfigError where the configuration's path is no line of a unit.
    """
    from ddtune.config.errors import ConfigError
    from ddtune.config.paths import config_file
    from ddtune.onhost.drop_in import quote

    if not str(config_file()).isprintable():
        raise ConfigError(f"the path of the configuration cannot stand in a unit: {str(config_file())!r}")
    # Not by the environment, in which anything may stand.
    user = pwd.getpwuid(os.geteuid()).pw_name
    words = [sys.executable, "-m", "ddtune.cli.main", "watch", *hosts, "--every", f"{every_s:g}"]
    command = " ".join(quote(word) for word in [*words, *(["--only-tell"] if only_tell else [])])
    name = shlex.quote(f"ddtune-watch-{hosts[0].replace('/', '-')}.service")
    # A line that ended in a backslash would take in the next one.
    described = " ".join(hosts).replace("\\", "\\\\").replace("%", "%%")
    config = quote(f"DDTUNE_CONFIG={config_file()}").replace("$$", "$")
    return f"""\
# Save as /etc/systemd/system/{name}, then: systemctl enable --now {name}
# The login's key must be usable without an agent and without a passphrase.
[Unit]
Description=ddtune watch {described}
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
NotifyAccess=main
User={user}
Environment={config}
ExecStart={command}
Restart=always
RestartSec=10
WatchdogSec={WATCHDOG_S}
TimeoutStopSec={STOP_S}
NoNewPrivileges=yes
ProtectSystem=full
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
"""
