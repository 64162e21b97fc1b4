"""Runs a transaction in a thread of its own while this one only prints: a terminal that stalls costs no lease."""

from __future__ import annotations

import queue
import signal
import sys
from concurrent.futures import Future
from types import FrameType
from typing import NoReturn

import click

from ddtune.cli import report
from ddtune.cli.errors import ending
from ddtune.cli.text import outcome_text, plan_text, progress_text
from ddtune.config.model import HostConfig
from ddtune.gate.golden import Golden
from ddtune.host.errors import HelperFailed, HelperRefused, Unreachable
from ddtune.live.worker import Worker
from ddtune.rollout.errors import Refused
from ddtune.rollout.golden import made_json, sentence
from ddtune.rollout.model import Outcome, Plan, Progress
from ddtune.rollout.outcome import outcome_json
from ddtune.rollout.session import Session


def transact(
    config: HostConfig,
    name: str,
    kind: str,
    profile: str | None,
    *,
    force: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Plan, ask, run, report; ends the command with the outcome's exit code."""
    with Worker() as worker:
        session = Session(config, worker)
        try:
            with ending(name, as_json=as_json, outcome="refused"):
                worker.submit(session.open()).result()
                if kind == "abort":
                    _end(worker.submit(session.abort()).result(), name, as_json=as_json, asked_back=True)
                plan = worker.submit(session.plan(kind, profile, force=force, keep=not dry_run)).result()
                if dry_run:
                    _show_plan(plan, name, as_json=as_json)
                    return
                if plan.refused is None and not yes:
                    _ask(plan, as_json=as_json)
                    if _wants_canary(plan):
                        _run_canary(plan, config, worker)
                    if not click.confirm("Go on?", default=False):
                        raise SystemExit(report.INTERRUPTED)
                outcome = _follow(worker.submit(session.run(_Printer(as_json).put)), session, worker)
                if kind == "golden":
                    _end_visit(outcome, session.golden, name, as_json=as_json)
                _end(outcome, name, as_json=as_json, asked_back=kind == "rollback")
        finally:
            worker.submit(session.close()).result()


class _Printer:
    """Prints progress from a thread of its own, so that a terminal nobody reads holds up nothing else."""

    def __init__(self, as_json: bool) -> None:
        import threading

        self._queue: queue.SimpleQueue[Progress] = queue.SimpleQueue()
        self._as_json = as_json
        threading.Thread(target=self._print, daemon=True).start()

    def put(self, step: Progress) -> None:
        self._queue.put(step)

    def _print(self) -> None:
        while True:
            text = progress_text(self._queue.get())
            # Standard output belongs to the one JSON object.
            if text:
                report.say(text, err=self._as_json)


def _follow(running: Future[Outcome], session: Session, worker: Worker) -> Outcome:
    """Wait for the outcome. The first Ctrl-C aborts the transaction, the second leaves it to the host."""
    presses = 0

    def interrupted(_signal: int, _frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            report.say("ddtune: aborting; the host goes back to stable. Ctrl-C again leaves it to the host.", err=True)
            worker.submit(session.abort_running())
        else:
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, interrupted)
    try:
        while True:
            try:
                return running.result(timeout=0.5)
            except TimeoutError:
                if running.done():
                    raise
    except KeyboardInterrupt:
        report.say("ddtune: left; the host decides by itself. `ddtune status` shows how it ended.", err=True)
        raise SystemExit(report.INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGINT, previous)


def _show_plan(plan: Plan, name: str, *, as_json: bool) -> None:
    refused = plan.refused
    if as_json:
        from ddtune.cli.plan_json import plan_json

        report.print_json({**plan_json(plan), "host": name})
    else:
        report.say(plan_text(plan))
    if refused is not None:
        raise SystemExit(report.REFUSED)


def _ask(plan: Plan, *, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        report.fail(
            "this needs an answer and nobody can be asked here: add --yes.",
            report.USAGE,
            cause="usage",
            as_json=as_json,
            host=plan.host,
        )
    report.say(plan_text(plan))


def _wants_canary(plan: Plan) -> bool:
    if plan.canary is None or plan.canary.verdict is not None:
        return False
    return click.confirm("Ask the graph canary first? It restarts nothing and takes half a minute.", default=False)


def _run_canary(plan: Plan, config: HostConfig, worker: Worker) -> None:
    """Asks it about the plan's budget; what it says stands above the question whether to go on."""
    from ddtune.cli.canary import BATCHES, canary_text
    from ddtune.rollout.graph_canary import run_canary

    assert plan.canary is not None
    try:
        done = worker.submit(run_canary(config, [plan.canary.budget], BATCHES)).result()
    except (Refused, HelperRefused, HelperFailed, Unreachable) as error:
        report.say(f"The canary could not be asked: {report.clean(error.message)}")
        return
    refused = done.report.refused
    report.say(
        f"No room for the canary: {refused}." if refused else canary_text(done, plan.host, simulated=plan.simulated)
    )


def _end_visit(outcome: Outcome, made: Golden | None, name: str, *, as_json: bool) -> NoReturn:
    """A visit that brought its answers and went back has done what was asked."""
    if as_json:
        report.print_json({**outcome_json(outcome, name), "golden": made_json(made) if made else None})
    else:
        report.say(outcome_text(outcome))
        if made is not None:
            report.say(report.clean(sentence(made)))
    code = report.OF_OUTCOME[outcome.outcome]
    raise SystemExit(report.DONE if made is not None and outcome.outcome == "rolled_back" else code)


def _end(outcome: Outcome, name: str, *, as_json: bool, asked_back: bool) -> None:
    if as_json:
        report.print_json(outcome_json(outcome, name))
    else:
        report.say(outcome_text(outcome))
    code = report.OF_OUTCOME[outcome.outcome]
    if outcome.outcome == "rolled_back" and asked_back:
        code = report.DONE
    if outcome.outcome == "refused" and outcome.cause == "unreachable":
        code = report.UNREACHABLE
    raise SystemExit(code)
