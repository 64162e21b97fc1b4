"""``ddtune hosts``: list, test and edit the hosts of the configuration."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from ddtune.cli import report
from ddtune.cli.hosts import reached

if TYPE_CHECKING:
    from ddtune.cli.logins import Login
    from ddtune.config.model import HostConfig

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
_STDERR = 2
_EDITORS = ("sensible-editor", "nano", "vi")


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def hosts(ctx: click.Context, as_json: bool) -> None:
    """The configured hosts, running embedded ones, and the aliases of ~/.ssh/config, which all commands take."""
    if ctx.invoked_subcommand is not None:
        return
    from ddtune.config.openssh import aliases
    from ddtune.config.paths import config_file
    from ddtune.config.resolve import demo_hosts

    configured = _configured(as_json=as_json)
    known = sorted(aliases() - set(configured))
    if as_json:
        found = {"hosts": [_body(one) for one in configured.values()], "embedded": demo_hosts(), "aliases": known}
        report.print_json({"proto": 1, "config": str(config_file()), **found})
        return
    for one in configured.values():
        words = [_way(one), one.unit or "its only service", *(["protected"] if one.protected else [])]
        report.say(f"{one.name:16} {'  '.join(words)}")
    if not configured:
        report.say(f"No host has a table in {config_file()}; none needs one. `ddtune hosts edit` begins the file.")
    if demo_hosts():
        report.say(f"embedded: {', '.join(demo_hosts())}")
    report.say(f"aliases of ~/.ssh/config: {', '.join(map(report.clean, known)) or '—'}")


@hosts.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@json_option
@click.pass_context
def test(ctx: click.Context, names: Sequence[str], as_json: bool) -> None:
    """Log in to each NAME (all configured hosts when none is named). Exit 8 when one fails. Changes nothing."""
    from ddtune.cli.logins import try_login

    as_json = as_json or _above(ctx)
    wanted = list(names) or list(_configured(as_json=as_json))
    if not wanted:
        message = "no host is configured: name one, as in `ddtune hosts test ALIAS`, or begin with `ddtune hosts edit`."
        report.fail(message, report.USAGE, cause="usage", as_json=as_json)
    with ExitStack() as stack:
        configs = [stack.enter_context(reached(name, as_json=as_json)) for name in wanted]

        async def all_of_them() -> list[Login]:
            return list(await asyncio.gather(*map(try_login, configs)))

        logins = asyncio.run(all_of_them())
    if as_json:
        report.print_json({"proto": 1, "ok": all(one.ok for one in logins), "hosts": [_login(one) for one in logins]})
    else:
        for one in logins:
            report.say(_line(one))
    if not all(one.ok for one in logins):
        raise SystemExit(report.UNREACHABLE)


@hosts.command()
@json_option
@click.pass_context
def edit(ctx: click.Context, as_json: bool) -> None:
    """Open the configuration file in $VISUAL or $EDITOR and check it afterwards; it is begun where there is none."""
    from ddtune.config.paths import config_file
    from ddtune.config.template import write_template

    as_json = as_json or _above(ctx)
    path = config_file()
    editor = _editor(str(path), as_json=as_json)
    try:
        begun = write_template(path)
        # Standard output belongs to the one JSON object.
        done = subprocess.run([*editor, str(path)], stdout=_STDERR if as_json else None, check=False)
    except OSError as error:
        report.fail(f"cannot edit {path}: {error.strerror}.", report.USAGE, cause="usage", as_json=as_json)
    if done.returncode != 0:
        message = f"{editor[0]} ended with status {done.returncode}; {path} was not checked."
        report.fail(message, report.USAGE, cause="usage", as_json=as_json)
    configured = _configured(as_json=as_json)
    if as_json:
        report.print_json({"proto": 1, "config": str(path), "begun": begun, "hosts": list(configured)})
        return
    report.say(f"{path} is right; its hosts: {', '.join(configured) or 'none yet'}")


def _above(ctx: click.Context) -> bool:
    """Whether --json stands before the subcommand."""
    return bool(ctx.parent and ctx.parent.params.get("as_json"))


def _configured(*, as_json: bool) -> Mapping[str, HostConfig]:
    from ddtune.config.errors import ConfigError
    from ddtune.config.load import load_config
    from ddtune.config.paths import config_file

    try:
        return load_config() if config_file().exists() else {}
    except ConfigError as error:
        report.fail(f"{error}; mend it with `ddtune hosts edit`.", report.USAGE, cause="usage", as_json=as_json)


def _editor(path: str, *, as_json: bool) -> list[str]:
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    try:
        words = shlex.split(named or "")
    except ValueError:
        words = []
    words = words or [found for name in _EDITORS if (found := shutil.which(name))][:1]
    if not words or not shutil.which(words[0]):
        why = f"there is no editor {words[0]!r}" if words else "no editor was found"
        report.fail(f"{why}: set $EDITOR, or edit {path} yourself.", report.USAGE, cause="usage", as_json=as_json)
    return words


def _way(config: HostConfig) -> str:
    user = f"{config.user}@" if config.user else ""
    return f"{user}{config.ssh}" + (f":{config.port}" if config.port else "")


def _body(config: HostConfig) -> dict[str, object]:
    own = {name: getattr(config, name) for name in ("name", "unit", "api_port", "traffic", "protected", "write")}
    return {**own, "ssh": _way(config)}


def _login(login: Login) -> dict[str, object]:
    error = None if login.ok else {"cause": login.cause, "message": login.message}
    seen = {"rtt_ms": login.rtt_ms, "host_key": login.host_key, "python": login.python}
    return {"name": login.host, "ok": login.ok, **seen, "error": error}


def _line(login: Login) -> str:
    if login.ok:
        return (
            f"{login.host:16} ok      {login.rtt_ms:.0f} ms, host key known, Python {report.clean(login.python or '')}"
        )
    return f"{login.host:16} failed  {report.clean(login.message or '')}"
