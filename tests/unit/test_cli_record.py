"""A recording whose file takes no more: the right word and the right exit code."""

from __future__ import annotations

import errno
import json
import os
import signal
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ddtune.cli.group import ddtune
from ddtune.live import hub, recording
from ddtune.live.snapshot import Link, Snapshot


class Talking:
    """A hub whose collector says one line a second, two of them."""

    def __init__(self, config: object, worker: object, tap: Any) -> None:
        self._tap = tap

    def start(self) -> None:
        for second in (1.0, 2.0):
            self._tap({"t": "ready", "at": second}, 1e12 + second)

    def stop(self) -> None:
        """There is nothing to end."""

    def latest(self) -> Snapshot:
        return Snapshot("b300", 0.0, Link("up"))


class Full(BytesIO):
    """A file with room for little more than its head."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self._code = code

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > 64:
            raise OSError(self._code, os.strerror(self._code))
        return super().write(data)


@pytest.mark.parametrize(
    ("code", "cause"), [(errno.ENOSPC, "disk_full"), (errno.EDQUOT, "disk_full"), (errno.EIO, "unknown")]
)
def test_what_ends_a_recording_is_told_by_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, cause: str
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[hosts.b300]\nssh = "127.0.0.1"\nport = 1\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DDTUNE_CONFIG", str(config))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(hub, "Hub", Talking)
    monkeypatch.setattr(recording.os, "fdopen", lambda raw, _mode: (os.close(raw), Full(code))[1])
    answer = CliRunner().invoke(ddtune, ["record", "b300", str(tmp_path / "file"), "--json"])
    said = json.loads(answer.stdout)
    assert (answer.exit_code, said["error"]["cause"]) == (2, cause), answer.output
    assert os.strerror(code) in said["error"]["message"]
    assert said["host"] == "b300"
    assert said["lines"] == 1
