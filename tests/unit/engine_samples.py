"""Real answers and logs of SGLang servers, trimmed."""

from __future__ import annotations

import re
from pathlib import Path

from ddtune.engine.log import parse
from ddtune.engine.model import LogLine
from ddtune.onhost.collect_metrics import Sieve

DATA = Path(__file__).parent / "data" / "engine"
LOGS = sorted(path.stem for path in DATA.glob("*.log"))
_SECONDS = re.compile(r"^ *(\d+\.\d+) ")


def text(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def filtered(text: str) -> str:
    """What the collector sends of exposition text."""
    sieve = Sieve()
    sieve.feed(text.encode() + b"\n")
    return sieve.text()


def log(name: str) -> list[LogLine]:
    """A log's lines; ``at`` is seconds since the start where the log has them."""
    return [_line(line) for line in text(f"{name}.log").splitlines()]


def _line(raw: str) -> LogLine:
    seconds = _SECONDS.match(raw)
    return parse(raw[seconds.end() :], at=float(seconds[1])) if seconds else parse(raw)
