"""``ddtune switch``, ``restart``, ``rollback`` and ``abort``: the transaction from the command line."""

from __future__ import annotations

from collections.abc import Callable

import click

from ddtune.cli import report
from ddtune.cli.hosts import reached
from ddtune.config.model import HostConfig


def write_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that every command of a transaction has."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output."),
        click.option("--confirm", metavar="NAME", help="The name of a protected host, to change it all the same."),
        click.option("--yes", is_flag=True, help="Do not ask."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("host")
@click.argument("profile")
@click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")
@click.option("--force", is_flag=True, help="Override known-bad and quarantine, nothing else.")
@write_options
def switch(host: str, profile: str, dry_run: bool, force: bool, yes: bool, confirm: str | None, as_json: bool) -> None:
    """Switch HOST to PROFILE behind gates; the host rolls back by itself on a crash, a hang or wrong output."""
    _run(host, "switch", profile, force=force, dry_run=dry_run, yes=yes, confirm=confirm, as_json=as_json)


@click.command()
@click.argument("host")
@write_options
def restart(host: str, yes: bool, confirm: str | None, as_json: bool) -> None:
    """Restart HOST's stable release behind the same gates."""
    _run(host, "restart", None, yes=yes, confirm=confirm, as_json=as_json)


@click.command()
@click.argument("host")
@write_options
def rollback(host: str, yes: bool, confirm: str | None, as_json: bool) -> None:
    """Back to stable now: ends a running trial, or goes to what was stable before the last commit."""
    _run(host, "rollback", None, yes=yes, confirm=confirm, as_json=as_json)


@click.command()
@click.argument("host")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def abort(host: str, as_json: bool) -> None:
    """Stop HOST's running transaction, whoever started it; the host goes back to stable."""
    _run(host, "abort", None, yes=True, confirm=None, as_json=as_json, protect=False)


def _run(
    name: str,
    kind: str,
    profile: str | None,
    *,
    yes: bool,
    confirm: str | None,
    as_json: bool,
    force: bool = False,
    dry_run: bool = False,
    protect: bool = True,
) -> None:
    from ddtune.cli.transact import transact

    with reached(name, as_json=as_json) as config:
        if not dry_run:
            require_writable_host(config, as_json=as_json)
        # The way back is never made hard: a rollback needs no name typed.
        if protect and kind != "rollback" and not dry_run:
            require_name(config, confirm, as_json=as_json)
        transact(config, name, kind, profile, force=force, dry_run=dry_run, yes=yes, as_json=as_json)


def require_writable_host(config: HostConfig, *, as_json: bool) -> None:
    """End the command on a host that may only be read."""
    from ddtune.rollout.errors import Refused, require_writable

    try:
        require_writable(config)
    except Refused as error:
        report.fail(
            error.message, report.REFUSED, cause=error.cause, as_json=as_json, host=config.name, outcome="refused"
        )


def require_name(config: HostConfig, confirm: str | None, *, as_json: bool) -> None:
    """End the command unless a protected host was named."""
    if config.protected and confirm != config.name:
        report.fail(
            f"{config.name} is protected: add --confirm {config.name} to change it.",
            report.REFUSED,
            cause="read_only",
            as_json=as_json,
            host=config.name,
            outcome="refused",
        )
