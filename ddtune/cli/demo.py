"""``ddtune demo``: the embedded host, with the dashboard or kept running."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import click

from ddtune.cli import report
from ddtune.cli.looks import look_options


@click.command()
@click.option("--serve", is_flag=True, help="Keep an embedded host running and print how to reach it.")
@click.option("--engine", metavar="COMMAND", help="A real engine in the simulated one's place; needs --serve.")
@click.option(
    "--gpus",
    type=click.Choice(["simulated", "real"]),
    default="simulated",
    show_default=True,
    help="Whose GPUs and kernel log the host shows; real needs --serve.",
)
@click.option("--until-eof", is_flag=True, hidden=True, help="End with standard input.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@look_options
def demo(
    serve: bool, engine: str | None, gpus: str, until_eof: bool, as_json: bool, as_ascii: bool, no_mouse: bool
) -> None:
    """The dashboard on an embedded host: eight simulated B300s and an engine with recorded faults.

    DDTUNE_SIM_SPEED is how many of its seconds pass in one of yours (10); DDTUNE_SIM_SCENARIO names a further fault.

    With --engine the host runs that command as its service instead (assignments may stand before it; its port is chosen
    for it). It inherits this environment, starts cold, and is not adopted: `ddtune adopt` comes next, as on any host.
    """
    if serve:
        asyncio.run(_serve(engine, real_gpus=gpus == "real", until_eof=until_eof, as_json=as_json))
        return
    if engine is not None or gpus == "real":
        report.fail("--engine and --gpus real need --serve.", report.USAGE, cause="usage", as_json=as_json)
    if as_json:
        report.fail("the dashboard has no JSON; add --serve.", report.USAGE, cause="usage", as_json=True)
    from ddtune.cli.connect import dashboard

    dashboard(["demo"], write=True, as_ascii=as_ascii, no_mouse=no_mouse)


async def _serve(engine: str | None, *, real_gpus: bool, until_eof: bool, as_json: bool) -> None:
    from ddtune.cli.embedded import start_embedded

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    if until_eof:
        # A thread, since not all that standard input can be is pollable.
        threading.Thread(target=_at_eof, args=(lambda: loop.call_soon_threadsafe(ended.set),), daemon=True).start()
    async with start_embedded(as_json=as_json, engine=engine, real_gpus=real_gpus) as host:
        name, simulated = host.name, host.settings.simulated
        if as_json:
            report.print_json({"proto": 1, "host": name, "pid": os.getpid(), "simulated": simulated})
        else:
            what = " (simulated)" if simulated else ""
            then = f"connect {name} --write" if engine is None else f"adopt {name}"
            report.say(f"{name} is up{what}. In another terminal: ddtune {then}")
            report.say("Ctrl-C ends it with all its processes.")
        await ended.wait()


def _at_eof(then: Callable[[], object]) -> None:
    with suppress(OSError, ValueError):
        while os.read(0, 4096):
            pass
    with suppress(RuntimeError):
        then()
