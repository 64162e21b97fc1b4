"""``ddtune gate``: judge the running service."""

from __future__ import annotations

import asyncio

import click

from ddtune.cli import report
from ddtune.cli.errors import ending
from ddtune.cli.hosts import reached
from ddtune.gate.model import GateEvent, Verdict


def _told(event: GateEvent) -> None:
    """Where the gate stands, for who waits: a line on standard error as a check begins."""
    if not event.asked and event.result is None:
        report.say(f"{event.stage} {event.number} of {event.of}: {event.check}", err=True)


@click.command()
@click.argument("host")
@click.option("--quick", is_flag=True, help="Only the quick gate.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def gate(host: str, quick: bool, as_json: bool) -> None:
    """Judge the service that runs on HOST: copies, its agreement with itself, code, detectors, accept length.

    Sends requests to the service, changes nothing. Exit 9 when a check failed, 10 when one was inconclusive.
    """
    from ddtune.rollout.inplace import judge_running
    from ddtune.rollout.outcome import check_json

    with reached(host, as_json=as_json) as config, ending(host, as_json=as_json):
        done = asyncio.run(judge_running(config, full=not quick, on_event=_told))
    verdicts = [check.verdict for check in done.checks.values()]
    if as_json:
        report.print_json(
            {
                "proto": 1,
                "host": host,
                "simulated": config.simulated,
                "gate": {name: check_json(check) for name, check in done.checks.items()},
                "not_planned": dict(done.not_planned),
            }
        )
    else:
        for check in done.checks.values():
            spent = f"{check.tokens} of {check.budget} tokens" if check.budget else f"{check.tokens} tokens"
            report.say(f"{check.verdict.value:12}  {check.name:16} {report.clean(check.reason)}")
            report.say(f"{'':31}{spent}, {check.seconds:.1f} s")
        for name, why in done.not_planned.items():
            report.say(f"{'not planned':12}  {name:16} {why}")
    if Verdict.FAIL in verdicts:
        raise SystemExit(report.CHECK_FAILED)
    if Verdict.INCONCLUSIVE in verdicts:
        raise SystemExit(report.INCONCLUSIVE)
