"""What a login shell prints before each command reaches neither the readers nor the screen."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from ddtune.host.connection import Result
from ddtune.host.helper import Helper
from ddtune.live.pack import Unpacker
from ddtune.live.picture import snapshot
from ddtune.live.reduce import reduce
from ddtune.live.state import State

BANNER = (
    b"\x1b[2J\x1b]0;owned\x07*** Welcome to rack 7 ***",
    b"Last login: Mon Jan  1 00:00:00 from 10.0.0.1",
    b'{"notice": "maintenance on Friday"}',
    b'["a", "list"]',
    b"{broken",
    b"\xff\xfe not UTF-8",
    b"",
)
LINES = ({"t": "hello", "proto": 1, "at": 1.0, "unit": "sglang.service"}, {"t": "note", "at": 1.0, "text": "a note"})


def test_a_banner_before_and_between_the_collectors_lines_is_passed_over() -> None:
    unpacker, state = Unpacker(), State("b300")
    for text in (*BANNER, *(json.dumps(line).encode() for line in LINES), *BANNER):
        for line in unpacker.lines(text):
            state = reduce(state, line, time.time())
    seen = snapshot(state, time.time())
    assert seen.service.unit == "sglang.service"
    assert seen.notes == ("a note",)
    assert "rack 7" not in repr(seen)
    assert "Friday" not in repr(seen)


class Said:
    """A connection on which each command prints the banner first."""

    user, label = "root", "b300"

    async def run(self, _argv: Any, _stdin: bytes, _timeout: float) -> Result:
        answer = json.dumps({"proto": 1, "ok": True, "text": "pong"}).encode()
        return Result(0, b"\n".join((*BANNER, answer, b"")), b"\n".join(BANNER))


def test_a_banner_before_the_helpers_answer_is_passed_over() -> None:
    answer = asyncio.run(Helper(Said()).call("hello"))  # type: ignore[arg-type]  # as much of a connection as it needs
    assert answer == {"proto": 1, "ok": True, "text": "pong"}
