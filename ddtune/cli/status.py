"""``ddtune status``: one reading of everything."""

from __future__ import annotations

import click

from ddtune.cli import report
from ddtune.cli.hosts import reached
from ddtune.cli.live import read_once


@click.command()
@click.argument("host")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def status(host: str, as_json: bool) -> None:
    """One reading of everything on HOST: GPUs, service, transaction, incidents."""
    from ddtune.cli.status_text import status_text
    from ddtune.live.status import status_json

    with reached(host, as_json=as_json) as config:
        snapshot = read_once(config, as_json=as_json)
    if as_json:
        report.print_json({**status_json(snapshot), "host": host})
    else:
        report.say(status_text(snapshot))
