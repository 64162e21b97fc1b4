"""From the HOST that a user typed to a host that can be reached, the embedded one included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from ddtune.cli import report
from ddtune.config.model import HostConfig

DEMO_STOP_S = 15.0


@contextmanager
def reached(name: str, *, as_json: bool) -> Iterator[HostConfig]:
    """The configuration of a host by the name that the user typed; ``demo`` lives as long as the block."""
    from ddtune.config.errors import ConfigError
    from ddtune.config.resolve import resolve_host

    try:
        if name == "demo" or name.startswith("demo:"):
            with embedded(as_json=as_json) as config:
                yield config
        else:
            yield resolve_host(name)
    except ConfigError as error:
        report.fail(str(error), report.USAGE, cause="usage", as_json=as_json, host=name)


@contextmanager
def embedded(*, as_json: bool) -> Iterator[HostConfig]:
    """A fresh embedded host in a process of its own, which ends with the block."""
    from ddtune.config.resolve import resolve_host

    process = subprocess.Popen(
        [sys.executable, "-m", "ddtune.cli.main", "demo", "--serve", "--until-eof", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Ctrl-C belongs to the command; it then closes this process's standard input.
        start_new_session=True,
        env=dict(os.environ),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        said = _object(process.stdout.readline())
        if said.get("host") is None or "error" in said:
            why = (said.get("error") or {}).get("message") or "it ended without a word"
            code = process.wait(DEMO_STOP_S) or report.BUG
            report.fail(f"The embedded host did not start: {why}", code, cause="unknown", as_json=as_json, host="demo")
        # People called it demo; the name that it runs under is nobody's but its own.
        yield replace(resolve_host(str(said["host"])), name="demo")
    finally:
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(DEMO_STOP_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait(DEMO_STOP_S)


def _object(line: bytes) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
