"""Every log line of the simulated engine has the shape of a real one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

LOGS = (
    "0.5.23/startup.log", "0.5.23/server.log", "0.5.17-h200/ngram16_g.log", "0.5.17-h200/nospec_g.log",
    "0.5.17-h200/kill9.log", "0.5.17-h200/hang.log", "0.5.17-h200/oom_capture.log", "0.5.17-h200/oom_start.log",
)  # fmt: skip
_PREFIX = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( TP\d+)?\] ")


def _shape(line: str) -> str:
    """What is left of a line without its figures, paths and names."""
    text = _PREFIX.sub("", line)
    text = re.sub(r"[0-9a-f]{32}", "H", text)
    text = re.sub(r"(server_args=).*", r"\1", text)
    text = re.sub(r"(remaining_rids=).*", r"\1", text)
    text = re.sub(r"type=\w+", "type=T", text)
    text = re.sub(r"\d+(\.\d+)?", "N", text)
    text = re.sub(r"\[(N, )*N\]", "[N]", text)
    text = re.sub(r"/\S*site-packages/", "", text)
    text = re.sub(r"\| *N/N \[[^\]]*\]|[█▏▎▍▌▋▊▉ ]*\| N/N \[[^\]]*\]", "|", text)
    text = re.sub(r'N:N - "\w+ \S+ HTTP/N" N [A-Z][\w ]*', "access", text)
    return re.sub(r"\s+", " ", text).strip()


def _code(line: str) -> bool:
    """A frame of a traceback, whose text is another version's business."""
    return line.startswith(("    ", '  File "'))


@pytest.fixture(scope="module")
def real(sample: Callable[[str], str]) -> set[str]:
    return {_shape(line) for name in LOGS for line in sample(name).splitlines()}


def _unknown(lines: Iterable[str], real: set[str], excused: Any) -> list[str]:
    known = [re.compile(entry["pattern"]) for entry in excused["line"]]
    return [
        line
        for line in lines
        if line.strip()
        and not _code(line)
        and _shape(line) not in real
        and not any(pattern.search(line) for pattern in known)
    ]


@pytest.mark.parametrize("engine", ["tree", "plain"])
def test_a_life_without_faults(engine: str, request: pytest.FixtureRequest, real: set[str], excused: Any) -> None:
    assert _unknown(request.getfixturevalue(engine).log.splitlines(), real, excused) == []


def test_every_way_to_die(crashed: str, real: set[str], excused: Any) -> None:
    assert _unknown(crashed.splitlines(), real, excused) == []


def test_decode_and_prefill_lines_have_the_real_fields_in_order(tree: Any, sample: Callable[[str], str]) -> None:
    for kind in ("Decode batch", "Prefill batch"):
        fields = {tuple(re.findall(r"([#\w][^,:]*): ", line.split(kind)[1])) for line in _of(tree.log, kind)}
        assert fields == {
            tuple(re.findall(r"([#\w][^,:]*): ", line.split(kind)[1]))
            for line in _of(sample("0.5.17-h200/ngram16_g.log"), kind)
        }


def test_lines_of_a_scheduler_name_its_rank(tree: Any) -> None:
    assert all(re.match(r"\[[^\]]* TP0\] ", line) for line in _of(tree.log, "Decode batch"))
    assert all(re.match(r"\[[\d :-]*\] ", line) for line in _of(tree.log, "INFO:     "))


def test_every_excuse_is_needed_and_has_a_source(
    tree: Any, plain: Any, crashed: str, real: set[str], excused: Any
) -> None:
    lines = [line for text in (tree.log, plain.log, crashed) for line in text.splitlines() if _shape(line) not in real]
    for entry in excused["line"]:
        assert entry["source"]
        assert any(re.search(entry["pattern"], line) for line in lines), entry


def _of(text: str, kind: str) -> list[str]:
    found = [line for line in text.splitlines() if kind in line]
    assert found
    return found
