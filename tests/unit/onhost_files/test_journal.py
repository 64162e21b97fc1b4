"""Lines of the journal, and what they decide."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from ddtune.engine.fatal import FATAL_PATTERNS
from ddtune.onhost import fatal
from ddtune.onhost.journal import Entry, Journal, parse
from ddtune.onhost.paths import Install

LINE = {
    "MESSAGE": "hello",
    "__CURSOR": "c1",
    "__REALTIME_TIMESTAMP": "1700000000000000",
    "_PID": "42",
    "_SYSTEMD_INVOCATION_ID": "inv",
}


def _parse(**changes: object) -> Entry:
    entry = parse(json.dumps({**LINE, **changes}).encode(), "unit")
    assert entry is not None
    return entry


def test_fields() -> None:
    assert _parse() == Entry(1700000000.0, "unit", "hello", "c1", "inv", 42)


def test_systemds_own_line_belongs_to_the_start_it_is_about() -> None:
    assert _parse(_PID="1", INVOCATION_ID="started", _SYSTEMD_INVOCATION_ID="").invocation == "started"


@pytest.mark.parametrize(
    ("message", "text"),
    [([0x68, 0xFF], "h�"), (None, ""), (["a", "b"], "b"), ([], ""), ([[0x68], [0x69]], "i"), (7, "")],
)
def test_message_of_any_shape(message: object, text: str) -> None:
    assert _parse(MESSAGE=message).text == text


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"-- cursor: x"])
def test_what_is_no_line_is_none(raw: bytes) -> None:
    assert parse(raw, "unit") is None


def test_followers_come_back_behind_the_last_line(tmp_path: Path) -> None:
    """A journalctl that ends is started again with the cursor that was seen last."""
    tool, calls = tmp_path / "journalctl", tmp_path / "calls"
    calls.touch()
    line = json.dumps({**LINE, "__CURSOR": "c2"})
    tool.write_text(f"#!/bin/sh\necho \"$*\" >>{calls}\necho '{line}'\n")
    tool.chmod(0o755)
    journal = Journal(Install(journalctl=str(tool)), "u.service", "c1")
    until = time.monotonic() + 10
    while calls.read_text().count("-u u.service") < 2 and time.monotonic() < until:
        journal.wait(0.1)
    journal.close()
    first, second = (call for call in calls.read_text().splitlines() if "-u u.service" in call)
    assert "--after-cursor=c1" in first
    assert "--after-cursor=c2" in second


def test_patterns_of_the_engine_compile_and_match() -> None:
    patterns = fatal.Patterns([{"cause": cause, "regex": regex} for cause, regex in FATAL_PATTERNS])
    line = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    assert patterns.cause(line) == "illegal_memory_access"
    assert patterns.cause("Decode batch, #running-req: 4") is None


def test_a_pattern_that_takes_for_ever_costs_a_moment_and_hides_no_other() -> None:
    slow = [{"cause": "x", "regex": regex} for regex in ("^(?:a|aa)+$", "^.*.*.*.*.*x$")]
    patterns = fatal.Patterns([*slow, {"cause": "good", "regex": "boom"}])
    line = "a" * 4000 + "b boom"
    began = time.process_time()
    assert [patterns.cause(line[: 20 * n] + "boom") for n in range(100, 110)] == ["good"] * 10
    assert time.process_time() - began < 5
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_a_pattern_that_cannot_be_used_is_left_out() -> None:
    patterns = fatal.Patterns([{"cause": "x", "regex": "("}, {"regex": "a"}, {"cause": "good", "regex": "boom"}])
    assert patterns.cause("boom") == "good"


def test_evidence_names_the_rank() -> None:
    assert fatal.evidence(_parse(MESSAGE="[2026-11-29 18:00:00 TP3] died"))["rank"] == "TP3"
