"""``ddtune connect``: the dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import click

from ddtune.cli import report
from ddtune.cli.hosts import reached


@click.command()
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@click.option("--write", is_flag=True, help="Allow changes; without it the dashboard only watches.")
def connect(hosts: tuple[str, ...], write: bool) -> None:
    """The dashboard of HOST; read-only unless --write, or unlocked inside with W."""
    dashboard(hosts, write=write)


def dashboard(hosts: Sequence[str], *, write: bool) -> None:
    """Open the dashboard on the first of the hosts."""
    if len(hosts) > 1:
        report.fail("the dashboard shows one host; open it once for each.", report.USAGE, cause="usage", as_json=False)
    with ExitStack() as stack:
        config = stack.enter_context(reached(hosts[0], as_json=False))
        from ddtune.tui.app import dashboard as show

        show(config, write=write)
