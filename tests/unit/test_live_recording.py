"""What a recording may not hold."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ddtune.config.model import HostConfig
from ddtune.engine.log import parse
from ddtune.live.recording import Recorder, read

PROMPT = "my mother's maiden name"
KEY = "sk-live-1234567890"
LINES = (
    {"t": "log", "entries": [{"at": 1.0, "text": f"Receive: obj=GenerateReqInput(text='{PROMPT}', x=1)"}]},
    {"t": "log", "entries": [{"at": 2.0, "text": f"server_args=ServerArgs(tp_size=8, api_key='{KEY}', port=1)"}]},
    {"t": "log", "entries": [{"at": 3.0, "text": f"python -m sglang --api-key {KEY} --port 1"}]},
    {"t": "note", "at": 4.0, "text": f"Authorization: Bearer {KEY}"},
    {
        "t": "ddtune",
        "at": 5.0,
        "txn": {"op": "1", "canary": {"body": PROMPT}, "evidence": [{"text": f"prompt='{PROMPT}'"}]},
    },
    {"t": "unit", "at": 6.0, "argv": ["--api-key=" + KEY]},
)


def test_neither_prompts_nor_keys_are_in_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    recorder = Recorder(path, HostConfig("b300", "b300"), 0.0)
    for number, line in enumerate(LINES):
        recorder.take(line, float(number))
    recorder.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = read(path)
    assert len(found.entries) == len(LINES)
    assert PROMPT not in repr(found)
    assert KEY not in repr(found)
    assert "tp_size=8" in repr(found)


def test_what_is_shown_of_a_line_is_the_same_from_the_file(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "file", HostConfig("b300", "b300"), 0.0)
    for line in LINES[:3]:
        recorder.take(line, 1.0)
    recorder.close()
    for before, entry in zip(LINES, read(tmp_path / "file").entries, strict=False):
        assert parse(entry.line["entries"][0]["text"]) == parse(before["entries"][0]["text"])


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        Recorder(tmp_path / "file", HostConfig("b300", "b300"), 0.0)
    assert (tmp_path / "file").read_text() == "mine"
