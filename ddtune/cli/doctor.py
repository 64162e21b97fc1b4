"""``ddtune doctor``: what works, what does not, what to do."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from ddtune.cli import report
from ddtune.cli.hosts import reached
from ddtune.cli.live import read_once
from ddtune.config.model import HostConfig

MARKS = {True: "ok", False: "not ok", None: "note"}


@click.command()
@click.argument("host")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def doctor(host: str, as_json: bool) -> None:
    """What works on HOST, what does not, what that costs and what mends it. Changes nothing."""
    from ddtune.host.bundle import pyz_sha256
    from ddtune.rollout.doctor import examine

    with reached(host, as_json=as_json) as config:
        snapshot = read_once(config, as_json=as_json)
        hello, why_not, login = asyncio.run(_ask(config))
    symptoms = examine(host, snapshot, hello, why_not, login, pyz_sha256())
    bad = [one for one in symptoms if one.ok is False]
    if as_json:
        report.print_json(
            {
                "proto": 1,
                "host": host,
                "simulated": config.simulated,
                "ok": not bad,
                "symptoms": [
                    {"name": one.name, "ok": one.ok, "seen": one.seen, "cost": one.cost, "mend": one.mend}
                    for one in symptoms
                ],
            }
        )
    else:
        for one in symptoms:
            click.echo(f"{MARKS[one.ok]:6}  {one.name:12} {report.clean(one.seen)}")
            if one.cost and one.ok is not True:
                click.echo(f"        so: {one.cost}")
            if one.mend and one.ok is not True:
                click.echo(f"        do: {one.mend}")
    if bad:
        raise SystemExit(report.CHECK_FAILED)


async def _ask(config: HostConfig) -> tuple[dict[str, Any] | None, str, str | None]:
    """The helper's ``hello`` or why there is none, and why a second login failed (None when it worked)."""
    from ddtune.host.connect import connect
    from ddtune.host.errors import HelperFailed, HelperRefused, Unreachable
    from ddtune.host.helper import Helper
    from ddtune.live.target import target_of

    hello: dict[str, Any] | None = None
    why_not = ""
    try:
        async with connect(target_of(config)) as conn:
            try:
                hello = await Helper(conn, root=config.root, python=config.python).call("hello")
            except (HelperFailed, HelperRefused) as error:
                why_not = error.message
            async with connect(target_of(config)):
                return hello, why_not, None
    except Unreachable as error:
        return hello, why_not or error.message, error.message
