"""``ddtune doctor``: what works, what does not, what to do."""

from __future__ import annotations

import asyncio

import click

from ddtune.cli import report
from ddtune.cli.hosts import reached

MARKS = {True: "ok", False: "not ok", None: "note"}


@click.command()
@click.argument("host")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def doctor(host: str, as_json: bool) -> None:
    """What works on HOST, what does not, what that costs and what mends it. Changes nothing, and needs no root."""
    from ddtune.cli.live import read_if_any
    from ddtune.rollout.doctor import examine
    from ddtune.rollout.doctor_look import look

    with reached(host, as_json=as_json) as config:
        seen = asyncio.run(look(config, read_if_any))
    symptoms = examine(seen)
    bad = [one for one in symptoms if one.ok is False]
    if as_json:
        report.print_json(
            {
                "proto": 1,
                "host": host,
                "simulated": config.simulated,
                "unit": seen.unit,
                "ok": not bad,
                "symptoms": [
                    {"name": one.name, "ok": one.ok, "seen": one.seen, "cost": one.cost, "mend": one.mend}
                    for one in symptoms
                ],
            }
        )
    else:
        width = max(len(one.name) for one in symptoms)
        for one in symptoms:
            report.say(f"{MARKS[one.ok]:6}  {one.name:{width}}  {report.clean(one.seen)}")
            if one.cost and one.ok is not True:
                report.say(f"{'':{width + 8}}  costs: {report.clean(one.cost)}")
            if one.mend and one.ok is not True:
                report.say(f"{'':{width + 8}}  mend:  {report.clean(one.mend)}")
    if seen.unreachable is not None:
        raise SystemExit(report.UNREACHABLE)
    if bad:
        raise SystemExit(report.CHECK_FAILED)
