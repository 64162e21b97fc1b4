"""What a host says, as the commands print it: nothing that a terminal would act on, in a sentence or in JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import ddtune.cli
from ddtune.cli import report
from ddtune.host.connection import Result
from ddtune.host.errors import HelperFailed
from ddtune.host.helper import _answer

ACTS = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31m\x9d0;x\x9c\x7f\u202e\u2066\u200b\x08"
LIVE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]")


def test_no_failure_brings_a_live_escape(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HelperFailed) as failed:
        _answer(Result(1, b"", f"Welcome{ACTS} to b300".encode()), "b300")
    assert LIVE.search(failed.value.message)
    with pytest.raises(SystemExit) as ended:
        report.fail(failed.value.message, report.REFUSED, cause=failed.value.cause, as_json=True, host="b300")
    assert ended.value.code == report.REFUSED
    out, err = capfd.readouterr()
    assert "Welcome to b300" in err
    assert not LIVE.search(out + err)
    assert json.loads(out)["error"]["message"] == failed.value.message


def test_no_line_brings_a_live_escape(capfd: pytest.CaptureFixture[str]) -> None:
    report.say(f"first {ACTS}line\n  second\n")
    assert capfd.readouterr().out == "first line\n  second\n\n"


def test_json_is_inert_and_the_same_value(capfd: pytest.CaptureFixture[str]) -> None:
    body = {f"na{ACTS}me": [f"{ACTS}\n\t", "Prüfung 好 █▌ é \U000e0001"]}
    report.print_json(body)
    out = capfd.readouterr().out
    assert json.loads(out) == body
    assert not LIVE.search(out.removesuffix("\n"))
    assert "Prüfung 好 █▌" in out


def test_the_commands_print_by_one_function_alone() -> None:
    # main.py answers --help before anything is imported, and has no word of a host's.
    sources = {path.name: path.read_text() for path in Path(ddtune.cli.__path__[0]).glob("*.py")}
    others = re.compile(r"click\.s?echo\(|(?<![\w.])print\(|std(?:out|err)\.write\(")
    # The version that a host's own Python prints.
    found = {name for name, text in sources.items() if others.search(text)} - {"report.py", "main.py", "logins.py"}
    assert found == set()
