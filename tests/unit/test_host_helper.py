from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ddtune.host.connect import connect
from ddtune.host.errors import HelperFailed, HelperRefused
from ddtune.host.helper import Helper
from tests.unit.host_server import serve


def _install(root: Path, script: str) -> None:
    helper = root / "usr/local/libexec/ddtune-host"
    helper.parent.mkdir(parents=True, exist_ok=True)
    helper.write_text(f"#!/bin/sh\n{script}\n")
    helper.chmod(0o755)


def _call(tmp_path: Path, script: str | None, **fields: object) -> dict[str, object]:
    async def call() -> dict[str, object]:
        if script is not None:
            _install(tmp_path, script)
        async with serve(tmp_path) as server, connect(server.target()) as conn:
            return await Helper(conn, str(tmp_path), login_is_root=True).call("state", "a.service", **fields)

    return asyncio.run(call())


def test_the_request_is_one_json_object_on_standard_input(tmp_path: Path) -> None:
    answer = _call(tmp_path, 'read line; printf \'{"proto":1,"ok":true,"got":%s}\' "$line"', limit=3)
    assert answer["got"] == {"proto": 1, "verb": "state", "unit": "a.service", "limit": 3}


def test_an_answer_that_was_cut_is_told_apart_from_none(tmp_path: Path) -> None:
    with pytest.raises(HelperFailed, match="more than ddtune reads"):
        _call(tmp_path, 'read line; printf \'{"proto":1,"ok":true,"text":"\'; head -c 9000000 /dev/zero; echo \'"}\'')


def test_a_refusal_keeps_cause_message_and_detail(tmp_path: Path) -> None:
    refusal = {"proto": 1, "ok": False, "cause": "busy", "message": "x has it.", "detail": {"owner": {"who": "x"}}}
    with pytest.raises(HelperRefused) as caught:
        _call(tmp_path, f"echo '{json.dumps(refusal)}'")
    assert (caught.value.cause, caught.value.message) == ("busy", "x has it.")
    assert caught.value.detail == {"owner": {"who": "x"}}


@pytest.mark.parametrize(
    ("script", "cause", "words"),
    [
        (None, "not_adopted", "ddtune adopt"),
        ("echo 'sudo: a password is required' >&2; exit 1", "read_only", "asks for a password"),
        ("echo 'bash: line 1: sudo: command not found' >&2; exit 127", "read_only", "has no sudo"),
        ("echo 'sh: 1: sudo: not found' >&2; exit 127", "read_only", "has no sudo"),
        ("echo 'sudo: /usr/local/x: command not found' >&2; exit 1", "not_adopted", "is not installed"),
        ('echo \'{"proto":2,"ok":true}\'', "read_only", "--upgrade"),
        ("echo Traceback; echo 'KeyError: x' >&2; exit 1", "unknown", "status 1: KeyError: x"),
    ],
)
def test_no_usable_answer_is_one_sentence(tmp_path: Path, script: str | None, cause: str, words: str) -> None:
    with pytest.raises(HelperFailed) as caught:
        _call(tmp_path, script)
    assert caught.value.cause == cause
    assert words in caught.value.message
    assert "box" in caught.value.message
