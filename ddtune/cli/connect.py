"""``ddtune connect``: the dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import click

from ddtune.cli.hosts import reached
from ddtune.cli.looks import look, look_options


@click.command()
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@click.option("--write", is_flag=True, help="Allow changes; without it the dashboard only watches.")
@click.option("--every", type=click.FloatRange(0.25, 10.0), default=1.0, help="Seconds between two readings (1).")
@look_options
def connect(hosts: tuple[str, ...], write: bool, every: float, as_ascii: bool, no_mouse: bool) -> None:
    """The dashboard of HOST, or of several in one list; read-only unless --write, or unlocked inside with W."""
    dashboard(hosts, write=write, every=every, as_ascii=as_ascii, no_mouse=no_mouse)


def dashboard(hosts: Sequence[str], *, write: bool, as_ascii: bool, no_mouse: bool, every: float = 1.0) -> None:
    """Open the dashboard on these hosts, each once."""
    shown = look(as_ascii=as_ascii, no_mouse=no_mouse, tick_s=every)
    with ExitStack() as stack:
        configs = [stack.enter_context(reached(host, as_json=False)) for host in dict.fromkeys(hosts)]
        from ddtune.tui.dashboard import dashboard as show

        code = show(configs, write=write, look=shown)
    raise SystemExit(code)
