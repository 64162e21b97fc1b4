"""``ddtune adopt`` and ``ddtune unadopt``."""

from __future__ import annotations

import asyncio

import click

from ddtune.cli import report
from ddtune.cli.hosts import reached
from ddtune.cli.live import read_once


@click.command()
@click.argument("host")
@click.option("--force", is_flag=True, help="Adopt a service that does not pass the gate in place; it stands unproven.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def adopt(host: str, force: bool, as_json: bool) -> None:
    """Put HOST's service under ddtune, once, as root. Restarts nothing.

    Installs the on-host programs, judges the running service in place, and makes what runs the stable release. The
    service's next start goes through ddtune's launcher.
    """
    from ddtune.host.errors import HelperFailed, HelperRefused, Unreachable
    from ddtune.rollout.adopt import adopt as adopt_host
    from ddtune.rollout.errors import Refused
    from ddtune.rollout.outcome import check_json

    with reached(host, as_json=as_json) as config:
        snapshot = read_once(config, as_json=as_json)
        unit = config.unit or snapshot.service.unit
        if unit is None:
            message = f"No running SGLang service was found on {host}: start it, or name it as {host}:UNIT."
            report.fail(message, report.REFUSED, cause="unsupported_unit", as_json=as_json, host=host)
        try:
            done = asyncio.run(adopt_host(config, snapshot, unit, force=force))
        except Refused as error:
            report.fail(error.message, report.CHECK_FAILED, cause=error.cause, as_json=as_json, host=host)
        except (HelperRefused, HelperFailed) as error:
            report.fail(error.message, report.REFUSED, cause=error.cause, as_json=as_json, host=host)
        except Unreachable as error:
            report.fail(error.message, report.UNREACHABLE, cause="unreachable", as_json=as_json, host=host)
    if as_json:
        report.print_json(
            {
                "proto": 1,
                "host": host,
                "simulated": config.simulated,
                "unit": done.unit,
                "profile": done.profile,
                "release": done.release,
                "axes": dict(done.axes),
                "standing": done.standing,
                "gate": {name: check_json(check) for name, check in done.report.checks.items()},
                "draft": done.draft,
            }
        )
        return
    click.echo(f"{report.clean(done.unit)} on {host} is under ddtune; it stands {done.standing} as {done.profile}.")
    click.echo("Nothing was restarted: its next start goes through ddtune's launcher.")
    if done.draft:
        click.echo(f"No profile has these axes. Save this as a profile to switch back to it by name:\n\n{done.draft}")


@click.command()
@click.argument("host")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def unadopt(host: str, as_json: bool) -> None:
    """Take HOST's service out of ddtune. Restarts nothing; the next start is by its own unit file again."""
    from ddtune.cli.helper import ask
    from ddtune.rollout.transaction import owner

    with reached(host, as_json=as_json) as config:
        answer = ask(config, "unadopt", as_json=as_json, programs=True, owner=owner())
    if as_json:
        kept = {name: answer.get(name) for name in ("removed", "stays", "running", "next_start")}
        report.print_json({"proto": 1, "host": host, "simulated": config.simulated, **kept})
        return
    click.echo(f"{host} is out of ddtune; its service was not touched. Removed:")
    for path in answer.get("removed") or ():
        click.echo(f"  {report.clean(path)}")
    after = answer.get("next_start") or {}
    if after.get("differs"):
        click.echo(f"Its next start differs from what runs now: {report.clean(str(after.get('command')))}")
