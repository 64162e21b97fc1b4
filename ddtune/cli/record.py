"""``ddtune record`` and ``ddtune replay``: what the dashboard sees, into a file and out of it."""

from __future__ import annotations

import errno
import signal
import threading
import time
from pathlib import Path
from typing import Any

import click

from ddtune.cli import report
from ddtune.cli.hosts import reached
from ddtune.cli.looks import look, look_options

LOOK_S = 0.2


@click.command()
@click.argument("host")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--for", "seconds", type=click.FloatRange(min=0, min_open=True), help="Seconds; until Ctrl-C without it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def record(host: str, file: Path, seconds: float | None, as_json: bool) -> None:
    """Record what the dashboard sees of HOST into FILE, without prompts and keys; `ddtune replay FILE` shows it."""
    from ddtune.live.hub import Hub
    from ddtune.live.recording import Recorder
    from ddtune.live.worker import Worker

    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    with reached(host, as_json=as_json) as config:
        try:
            recorder = Recorder(file, config, time.time())
        except OSError as error:
            why = "there is such a file already" if isinstance(error, FileExistsError) else error.strerror
            message = f"{file} cannot be written: {why}."
            report.fail(message, report.USAGE, cause=_cause(error, "usage"), as_json=as_json, host=host)
        began = time.monotonic()
        with Worker() as worker:
            hub = Hub(config, worker, tap=recorder.take)
            hub.start()
            if not as_json:
                report.say(f"recording {host} into {file}; Ctrl-C ends it", err=True)
            while not ended.wait(LOOK_S) and recorder.failed is None:
                if seconds is not None and time.monotonic() - began >= seconds:
                    break
            hub.stop()
        size, latest = recorder.close(), hub.latest()
    said: dict[str, Any] = {"file": str(file), "seconds": round(time.monotonic() - began, 1), "lines": recorder.lines}
    if recorder.failed is not None:
        message = f"{file} cannot be written any further: {recorder.failed.strerror or recorder.failed}."
        cause = _cause(recorder.failed, "unknown")
        report.fail(message, report.USAGE, cause=cause, as_json=as_json, host=host, **said)
    if latest.ages.unit is None and latest.ages.gpus is None:
        why = latest.link.error or f"{host} gave no reading."
        report.fail(why, report.UNREACHABLE, cause="unreachable", as_json=as_json, host=host, **said)
    if as_json:
        report.print_json({"proto": 1, "host": host, "simulated": config.simulated, **said, "bytes": size})
    else:
        report.say(f"{said['seconds']} s in {size / 1024:.0f} KiB: ddtune replay {file}")


def _cause(error: OSError, otherwise: str) -> str:
    """The class of what keeps a file of this machine from being written."""
    return "disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else otherwise


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--speed", type=click.FloatRange(min=0, min_open=True), default=1.0, show_default=True)
@click.option("--from", "start_s", type=click.FloatRange(min=0), default=0.0, help="Seconds from the begin.")
@look_options
def replay(file: Path, speed: float, start_s: float, as_ascii: bool, no_mouse: bool) -> None:
    """The dashboard on a recording: space plays, `,` and `.` move, n goes to the next event, [ and ] set the speed."""
    from ddtune.live.recording import BadRecording, read

    try:
        found = read(file)
    except BadRecording as error:
        report.fail(str(error), report.USAGE, cause="usage", as_json=False)
    from ddtune.tui.replay import replay as show

    raise SystemExit(show(found, speed=speed, start_s=start_s, look=look(as_ascii=as_ascii, no_mouse=no_mouse)))
