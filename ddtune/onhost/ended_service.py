"""``ended-service UNIT``, which systemd starts when the service has failed: is there anybody to bring it back?"""

from __future__ import annotations

import os

from . import ended, late, ledger
from .alive import guard_alive
from .paths import Install, Paths, load_install
from .txn import busy
from .unit import Systemctl, guard_unit


def main(args: list[str]) -> int:
    """Act on an end that nobody asked for; 0 unless systemd refuses."""
    install = load_install()
    answer(install, args[0], os.environ.get("MONITOR_INVOCATION_ID"))
    return 0


def answer(install: Install, unit: str, invocation: str | None) -> str:
    """Call the guard of an unsettled transaction back, or start a service whose probation ended; says which.

    systemd calls it at each automatic restart or once at the end of all, by version, so it looks at the records alone.
    """
    paths = Paths(install.root).unit(unit)
    systemctl = Systemctl(install)
    record = ended.newest(paths, invocation)
    if record is None or record["asked"]:
        return "asked"
    txn = ledger.load(paths)
    if txn is not None and busy(txn):
        if not guard_alive(paths, txn.op):
            systemctl.reset_failed(f"{guard_unit(txn.op)}.service")
            systemctl.run_guard(unit, txn.op)
        return "guard"
    found = late.probation(paths)
    if found is None or not found.get("ended"):
        return "nothing"
    if not systemctl.state(unit).down:
        return "restarting"
    systemctl.reset_failed(unit)
    systemctl.start(unit)
    return "started"
