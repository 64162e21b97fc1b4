"""``ddtune watch``: headless, in the foreground or as a service on any machine."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

import click

from ddtune.cli import report
from ddtune.cli.errors import ending
from ddtune.cli.hosts import reached
from ddtune.cli.watch_service import Beats, tell_systemd, unit_text
from ddtune.config.model import HostConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from ddtune.live.worker import Worker
    from ddtune.rollout.watcher import Watcher


@click.command()
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@click.option("--every", "every_s", type=click.FloatRange(1, 86400), default=60.0, help="Seconds between canaries.")
@click.option("--only-tell", is_flag=True, help="Never go back or start again, only tell.")
@click.option("--dry-run", is_flag=True, help="As --only-tell, and only say what would be told.")
@click.option("--once", is_flag=True, help="One canary, then end: 0 answered rightly, 9 not.")
@click.option("--print-unit", is_flag=True, help="Print a systemd unit that runs this watch, and end.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, at the end.")
def watch(
    hosts: tuple[str, ...],
    every_s: float,
    only_tell: bool,
    dry_run: bool,
    once: bool,
    print_unit: bool,
    as_json: bool,
) -> None:
    """Watch HOST without a screen: canaries, incidents, the way back on a late hang or late garbage, notifications.

    Whom to tell stands in the file `notify` beside config.toml (mode 600), an apprise address a line; it needs
    `pip install ddtune[notify]`. Both files are read at the start; `write = false` counts at once.
    """
    from ddtune.config.errors import ConfigError
    from ddtune.config.paths import config_dir
    from ddtune.rollout.notify import addresses, leave

    if print_unit:
        if as_json:
            report.fail("a unit is text: leave --json out", report.USAGE, cause="usage", as_json=True)
        _require_hosts(hosts)
        try:
            report.say(unit_text(hosts, every_s, only_tell=only_tell), nl=False)
        except ConfigError as error:
            report.fail(str(error), report.USAGE, cause="usage", as_json=False)
        return
    try:
        to = addresses(config_dir() / "notify")
    except ConfigError as error:
        report.fail(str(error), report.USAGE, cause="usage", as_json=as_json)
    if to and not dry_run:
        _require_apprise(as_json=as_json)
    with ExitStack() as stack:
        # Named twice, a host would be asked and told of twice.
        configs = [stack.enter_context(reached(name, as_json=as_json)) for name in dict.fromkeys(hosts)]
        code = _run(configs, to, every_s, acts=not (only_tell or dry_run), dry=dry_run, once=once, as_json=as_json)
    if to and not dry_run:
        leave(code)
    raise SystemExit(code)


def _require_hosts(hosts: tuple[str, ...]) -> None:
    """A unit's text is no place for anything but names."""
    from ddtune.config.address import parse
    from ddtune.config.errors import ConfigError

    for name in hosts:
        try:
            parse(name)
        except ConfigError as error:
            report.fail(str(error), report.USAGE, cause="usage", as_json=False)


def _require_apprise(*, as_json: bool) -> None:
    import importlib.util

    if importlib.util.find_spec("apprise") is None:
        message = "notifications are configured and apprise is not installed: pip install 'ddtune[notify]'"
        report.fail(message, report.USAGE, cause="usage", as_json=as_json)


def _run(
    configs: list[HostConfig], to: list[str], every_s: float, *, acts: bool, dry: bool, once: bool, as_json: bool
) -> int:
    from ddtune.config.paths import state_dir
    from ddtune.live.worker import Worker
    from ddtune.rollout.notify import Notifier, Told
    from ddtune.rollout.watcher import Watcher

    folder = state_dir() / "watch"
    folder.mkdir(mode=0o700, exist_ok=True)

    def say(text: str) -> None:
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {report.clean(text)}"
        # Nobody may be left to hear it, where a terminal has gone or a disk is full: it watches on.
        with suppress(OSError):
            report.say(line, err=as_json)

    with Worker() as worker:
        watchers = []
        for config in configs:
            # A dry run leaves what was told as it is.
            told = Told(folder / f"{config.name.replace('/', '_')}{'.dry' if dry else ''}.json")
            notifier = Notifier(to, told, say, dry=dry)
            may_act = partial(_may_act, config.name)
            watchers.append(Watcher(config, worker, notifier, say, every_s=every_s, acts=acts, may_act=may_act))
        if once:
            return _once(configs, watchers, worker, as_json=as_json)
        asked = asyncio.Event()
        running = worker.submit(_all(watchers, asked))
        ended = _until_signal(running, lambda: worker.loop.call_soon_threadsafe(asked.set))
    if as_json:
        report.print_json({"proto": 1, "hosts": [config.name for config in configs], "ended": ended})
    return report.DONE if ended == "asked" else report.BUG


def _may_act(name: str) -> bool:
    """Whether the configuration, as it is by now, lets ``name`` be changed; one that cannot be read forbids nothing."""
    from ddtune.config.errors import ConfigError
    from ddtune.config.resolve import resolve_host

    try:
        return not resolve_host(name).read_only
    except ConfigError:
        return True


def _once(configs: list[HostConfig], watchers: list[Watcher], worker: Worker, *, as_json: bool) -> int:
    seen = {}
    for config, watcher in zip(configs, watchers, strict=True):
        with ending(config.name, as_json=as_json):
            seen[config.name] = worker.submit(watcher.once()).result()
    if as_json:
        hosts = [{"host": name, "at": one.at, "cause": one.cause, "text": one.text} for name, one in seen.items()]
        report.print_json({"proto": 1, "hosts": hosts})
    else:
        for name, one in seen.items():
            report.say(f"{name}: {one.cause + ': ' if one.cause else ''}{report.clean(one.text)}")
    return report.CHECK_FAILED if any(one.cause for one in seen.values()) else report.DONE


async def _all(watchers: list[Watcher], asked: asyncio.Event) -> None:
    beats = Beats(len(watchers))
    for number, watcher in enumerate(watchers):
        watcher.beat = beats.of(number)
    running = [asyncio.create_task(watcher.run(asked)) for watcher in watchers]
    tell_systemd("READY=1")
    end = asyncio.create_task(asked.wait())
    try:
        await asyncio.wait((*running, end), return_when=asyncio.FIRST_COMPLETED)
        if asked.is_set():
            beats.ending = True
            tell_systemd("STOPPING=1")
        await asyncio.gather(*running)
    finally:
        for task in (*running, end):
            task.cancel()


def _until_signal(running: Future[None], ask: Callable[[], object]) -> str:
    """``asked`` when somebody ended the watch (a second signal ends it at once). Raises what the watch raised."""
    asked: list[int] = []
    numbers = [signal.SIGINT, signal.SIGTERM]
    # The end of a terminal is asked for too; nohup's word against it stands.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, lambda got, _: asked.append(got)) for number in numbers}
    try:
        while not asked and not running.done():
            time.sleep(0.2)
        if not asked:
            running.result()
            return "ended"
        ask()
        while len(asked) < 2 and not running.done():
            time.sleep(0.05)
        if running.done():
            running.result()
        return "asked"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
