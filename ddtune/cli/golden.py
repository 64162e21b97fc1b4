"""``ddtune golden``: make the reference answers that later gates are judged by."""

from __future__ import annotations

import asyncio

import click

from ddtune.cli import report
from ddtune.cli.errors import ending
from ddtune.cli.hosts import reached
from ddtune.cli.switch import require_name, require_writable_host, write_options
from ddtune.config.model import HostConfig


@click.command()
@click.argument("host")
@click.option(
    "--from",
    "source",
    type=click.Choice(["stable", "ar"]),
    default="stable",
    show_default=True,
    help="Ask what runs now, or restart without speculation for it and come back.",
)
@write_options
def golden(host: str, source: str, yes: bool, confirm: str | None, as_json: bool) -> None:
    """Make reference answers on HOST: greedy continuations, each asked three times to learn their own noise.

    From stable nothing is restarted. `--from ar` is a visit: two restarts, never committed, always ending on stable; it
    says its minutes first.
    """
    with reached(host, as_json=as_json) as config:
        require_writable_host(config, as_json=as_json)
        if source == "ar":
            from ddtune.cli.transact import transact

            require_name(config, confirm, as_json=as_json)
            transact(config, host, "golden", "ar", force=False, dry_run=False, yes=yes, as_json=as_json)
        _from_stable(config, host, as_json=as_json)


def _from_stable(config: HostConfig, host: str, *, as_json: bool) -> None:
    from ddtune.rollout.golden import made_json, make_from_stable, sentence

    with ending(host, as_json=as_json, outcome="refused"):
        made = asyncio.run(make_from_stable(config, lambda text: report.say(f"golden: {text}", err=True)))
    if as_json:
        body = {"proto": 1, "host": host, "simulated": config.simulated, "op": None, "outcome": "made", "cause": None}
        report.print_json({**body, "message": sentence(made), "golden": made_json(made)})
    else:
        report.say(report.clean(sentence(made)))
