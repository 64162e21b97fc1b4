"""``ddtune connect``: the dashboard."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import ExitStack

import click

from ddtune.cli import report
from ddtune.cli.hosts import reached
from ddtune.cli.looks import look, look_options
from ddtune.config.model import HostConfig

TRIES = 3


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
        for config in configs:
            ask_passphrases(config)
        from ddtune.tui.dashboard import dashboard as show

        code = show(configs, write=write, look=shown)
    raise SystemExit(code)


def ask_passphrases(config: HostConfig) -> None:
    """Ask for what unlocks the keys on the way to a host, while there is still a line to ask on.

    One that is left empty, or wrong three times, is left locked: the link then says what it tried.
    """
    from ddtune.host.errors import Unreachable
    from ddtune.host.keyring import locked_keys, unlock
    from ddtune.live.target import target_of

    if not sys.stdin.isatty():
        return
    try:
        locked = asyncio.run(locked_keys(target_of(config)))
    except Unreachable:
        # The dashboard says it, and tries again.
        return
    for path in locked:
        for _ in range(TRIES):
            text = f"Passphrase of {path} (empty: go on without it)"
            passphrase = click.prompt(text, default="", show_default=False, hide_input=True)
            if not passphrase or unlock(path, passphrase):
                break
            report.say("That is not its passphrase.")
