"""``ddtune history``: what happened on a host and why."""

from __future__ import annotations

import datetime

import click

from ddtune.cli import report
from ddtune.cli.hosts import reached
from ddtune.cli.text import word


@click.command()
@click.argument("host")
@click.option("--limit", default=50, show_default=True, help="The newest N entries.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def history(host: str, limit: int, as_json: bool) -> None:
    """What happened on HOST and why, oldest first, from the host's own record."""
    from ddtune.cli.helper import ask

    with reached(host, as_json=as_json) as config:
        answer = ask(config, "state", as_json=as_json, limit=limit)
    entries = answer.get("history") or []
    if as_json:
        report.print_json({"proto": 1, "host": host, "simulated": config.simulated, "history": entries})
        return
    if not entries:
        report.say("Nothing has happened here yet.")
    for entry in entries:
        at = datetime.datetime.fromtimestamp(float(entry.get("at") or 0), datetime.UTC).astimezone()
        origin, target = entry.get("from") or {}, entry.get("to") or {}
        cause = f" because {word(entry['cause'])}" if entry.get("cause") else ""
        names = f" {word(origin.get('profile'))} → {word(target.get('profile'))}" if target else ""
        report.say(f"{at:%Y-%m-%d %H:%M:%S}  {word(entry.get('op'))}  {word(entry.get('event'))}{names}{cause}")
        if entry.get("text"):
            report.say(f"    {word(entry['text'])}")
        for line in (entry.get("evidence") or [])[:3]:
            report.say(f"    {word(line.get('source'))}: {word(line.get('text'))}")
