"""``ddtune adopt`` and ``ddtune unadopt``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ddtune.cli import report
from ddtune.cli.errors import judged
from ddtune.cli.hosts import reached
from ddtune.cli.live import read_gpus
from ddtune.config.model import HostConfig

if TYPE_CHECKING:
    from ddtune.rollout.adopt import Adoption
    from ddtune.rollout.model import Outcome


@click.command()
@click.argument("host")
@click.option("--force", is_flag=True, help="Adopt a service that does not pass the gate in place; it stands unproven.")
@click.option(
    "--drill",
    type=click.Choice(["now", "next"]),
    default="next",
    show_default=True,
    help="When the launcher is proven by a restart: now and gated, or at the next one that happens anyway.",
)
@click.option(
    "--upgrade",
    is_flag=True,
    help="Only renew the programs, and take the unit's files as they are now; restarts nothing.",
)
@click.option(
    "--print-installer", is_flag=True, help="Print the script that root runs where this login may not install."
)
@click.option("--viewer", metavar="LOGIN", help="With --print-installer: a login that may look and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def adopt(
    host: str, force: bool, drill: str, upgrade: bool, print_installer: bool, viewer: str | None, as_json: bool
) -> None:
    """Put HOST's service under ddtune. Restarts nothing; safe to repeat.

    Installs the on-host programs, judges the running service in place, and makes what runs the stable release. The
    service's next start goes through ddtune's launcher. A login that is not root needs root once: print the installer,
    read it, run it as root on the host, and adopt again.
    """
    with reached(host, as_json=as_json) as config, judged(host, as_json=as_json):
        if print_installer:
            _print_installer(config, viewer, as_json=as_json)
            return
        from ddtune.rollout.adopt import adopt as adopt_host

        done = asyncio.run(adopt_host(config, read_gpus, force=force, upgrade=upgrade))
        if not as_json:
            _say(done, host, upgrade=upgrade, drill=drill)
        drilled = _drill(config, done, as_json=as_json) if drill == "now" and not upgrade else None
    if as_json:
        report.print_json({**_json(done, host, config), "drill": _drill_json(drill, drilled, host)})
    if drilled is not None:
        raise SystemExit(report.OF_OUTCOME[drilled.outcome])


def _print_installer(config: HostConfig, viewer: str | None, *, as_json: bool) -> None:
    from ddtune.host.connect import connect
    from ddtune.live.target import target_of
    from ddtune.rollout.install import constants
    from ddtune.rollout.installer import script

    async def login() -> str:
        async with connect(target_of(config)) as conn:
            return conn.user

    text = script(config.name, asyncio.run(login()), constants(config), viewer)
    if as_json:
        report.print_json({"proto": 1, "host": config.name, "simulated": config.simulated, "installer": text})
    else:
        report.say(text, nl=False)


def _drill(config: HostConfig, done: Adoption, *, as_json: bool) -> Outcome:
    """A gated restart of the same release: the first start through the launcher."""
    from dataclasses import replace

    from ddtune.cli.text import outcome_text, progress_text
    from ddtune.live.worker import Worker
    from ddtune.rollout.model import Progress
    from ddtune.rollout.session import Session

    config = replace(config, unit=done.unit, api_port=done.api_port or config.api_port)

    def say(step: Progress) -> None:
        report.say(progress_text(step), err=as_json)

    with Worker() as worker:
        session = Session(config, worker)
        try:
            worker.submit(session.open()).result()
            worker.submit(session.plan("restart", keep=True)).result()
            outcome = worker.submit(session.run(say)).result()
        finally:
            worker.submit(session.close()).result()
    if not as_json:
        report.say(outcome_text(outcome))
    return outcome


def _drill_json(drill: str, outcome: Outcome | None, host: str) -> dict[str, Any]:
    from ddtune.rollout.outcome import outcome_json

    return {"when": drill, "outcome": None if outcome is None else outcome_json(outcome, host)}


def _say(done: Adoption, host: str, *, upgrade: bool, drill: str) -> None:
    unit = report.clean(done.unit)
    if upgrade:
        what = "new programs" if done.installed else "these programs already"
        report.say(f"{host} has {what}; nothing was restarted.")
        _notes(done)
        return
    if done.already:
        report.say(f"{unit} on {host} is under ddtune already; it runs {done.profile} ({done.standing}).")
    else:
        report.say(f"{unit} on {host} is under ddtune; it stands {done.standing} as {done.profile}.")
        proven = "a gated restart proves it now" if drill == "now" else "the next one that happens anyway proves it"
        report.say(f"Nothing was restarted. From now on a start goes through ddtune's launcher: {proven}.")
    _notes(done)
    if done.draft:
        report.say(f"No profile has these axes. Save this as a profile to switch back to it by name:\n\n{done.draft}")
    if done.dialect_file and done.dialect_draft:
        report.say(f"How its engine spells the axes of profiles is in {done.dialect_file}, yours to edit:\n")
    if done.dialect_draft:
        report.say("\n".join(f"  {report.clean(line)}".rstrip() for line in done.dialect_draft.splitlines()))


def _notes(done: Adoption) -> None:
    from ddtune.onhost.unit_files import Change

    for one in done.accepted:
        report.say(f"Taken as it is now: {report.clean(Change.of(one).text)}.")
    for warning in done.warnings:
        report.say(f"Note: {report.clean(warning)}.")


def _json(done: Adoption, host: str, config: HostConfig) -> dict[str, Any]:
    from ddtune.rollout.outcome import check_json

    return {
        "proto": 1,
        "host": host,
        "simulated": config.simulated,
        "unit": done.unit,
        "already": done.already,
        "installed": done.installed,
        "profile": done.profile,
        "release": done.release,
        "axes": dict(done.axes),
        "standing": done.standing,
        "gate": {name: check_json(check) for name, check in done.report.checks.items()},
        "draft": done.draft,
        "dialect": done.dialect,
        "dialect_draft": done.dialect_draft,
        "dialect_file": done.dialect_file,
        "warnings": list(done.warnings),
        "accepted": [dict(one) for one in done.accepted],
        "api_port": done.api_port,
    }


@click.command()
@click.argument("host")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def unadopt(host: str, as_json: bool) -> None:
    """Take HOST's service out of ddtune. Restarts nothing; the next start is by its own unit file again.

    As root nothing of ddtune stays on the host. Another login leaves its helper and sudoers file, and is told the rm.
    """
    from ddtune.rollout.unadopt import unadopt as unadopt_host

    with reached(host, as_json=as_json) as config, judged(host, as_json=as_json):
        answer = asyncio.run(unadopt_host(config))
    if as_json:
        kept = {name: answer.get(name) for name in ("removed", "stays", "by_hand", "running", "next_start")}
        report.print_json({"proto": 1, "host": host, "simulated": config.simulated, **kept})
        return
    if answer.get("removed"):
        report.say(f"{host} is out of ddtune; its service was not touched. Removed:")
    else:
        report.say(f"Nothing of ddtune was left to remove on {host}.")
    for path in answer.get("removed") or ():
        report.say(f"  {report.clean(path)}")
    if answer.get("by_hand"):
        report.say(f"Only root can remove the rest; on the host:\n  sudo {report.clean(answer['by_hand'])}")
    after = answer.get("next_start") or {}
    if after.get("differs"):
        report.say(f"Its next start differs from what runs now: {report.clean(str(after.get('command')))}")
