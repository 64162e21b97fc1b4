"""``ddtune evidence``: a redacted tar of one operation, for a ticket."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click

from ddtune.cli import report
from ddtune.cli.hosts import reached


@click.command()
@click.argument("host")
@click.argument("op")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Where to write it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def evidence(host: str, op: str, out: Path | None, as_json: bool) -> None:
    """Pack what is known of HOST's operation OP into a tar: journals since the swap, both releases, timeline, readings.

    Keys and requests are taken out on the host, before anything leaves it; manifest.json says what is not in it.
    `ddtune history HOST` lists the operations.
    """
    from ddtune.cli.errors import judged
    from ddtune.cli.live import read_if_any
    from ddtune.rollout.evidence import evidence as gather

    with reached(host, as_json=as_json) as config, judged(host, as_json=as_json):
        found = asyncio.run(gather(config, op, read_if_any(config)))
    path = out or Path(f"ddtune-{config.name.replace('/', '-')}-{op}.tar.gz")
    try:
        _write(path, found.data)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}."
        report.fail(message, report.USAGE, cause="usage", as_json=as_json, host=host)
    if as_json:
        report.print_json(
            {
                "proto": 1,
                "host": host,
                "simulated": config.simulated,
                "op": op,
                "file": str(path),
                "bytes": len(found.data),
                "contents": list(found.contents),
                "left_out": list(found.left_out),
            }
        )
        return
    report.say(f"{path} ({len(found.data):,} bytes): {', '.join(found.contents)}")
    report.say("Not in it:")
    for line in found.left_out:
        report.say(f"  {report.clean(line)}")


def _write(path: Path, data: bytes) -> None:
    """For nobody else to read: it holds what a service printed."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
