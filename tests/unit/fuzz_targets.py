"""What every reader must hold for any input: no exception escapes, and nothing is invented.

Each target takes one input. The suite runs them briefly, ``python -m tests.benchmarks.fuzz`` for as long as asked.
"""

from __future__ import annotations

import contextlib
import json
import math
import unicodedata
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from hypothesis import strategies as st

from ddtune.engine.incidents import classify
from ddtune.engine.log import TEXT_LIMIT, number, parse, sanitise
from ddtune.engine.metrics import parse as parse_metrics
from ddtune.engine.metrics import reading
from ddtune.engine.readlog import reading_from_log, stall_s
from ddtune.engine.server_info import read_loads, read_server_info
from ddtune.gpu.reading import from_line
from ddtune.gpu.slots import keep
from ddtune.gpu.xid import Xids
from ddtune.live.pack import Unpacker
from ddtune.live.picture import snapshot
from ddtune.live.reduce import reduce
from ddtune.live.state import State
from ddtune.live.status import status_json
from ddtune.onhost import journal as guards
from ddtune.onhost.collect_api import chosen
from ddtune.onhost.collect_journal import parse_entry
from ddtune.onhost.collect_metrics import Sieve
from ddtune.onhost.collect_outbox import encode
from ddtune.onhost.collect_smi import FIELDS, lost_in, parse_row
from ddtune.onhost.fatal import xid
from tests.unit.collector_box import entry
from tests.unit.engine_samples import LOGS, text

_LINES = [line for name in LOGS for line in text(f"{name}.log").splitlines()][::7]
_KERNEL = [
    "NVRM: Xid (PCI:0000:1b:00): 31, pid=42, name=python3, MMU Fault",
    "NVRM: The NVIDIA GPU 0000:b3:00.0",
    "NVRM: fallen off the bus and is not responding to commands.",
    "NVRM: Xid (PCI:00000018:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    "Out of memory: Killed process 77 (python3) total-vm:1kB",
    "engine.service: Main process exited, code=killed, status=9/KILL",
    "Health check failed. tic start time: 00:00:10. last_heartbeat time: 23:59:50",
]
_SCRAPE = [line for line in text("metrics-0.5.23-load.txt").splitlines() if line][:400]
_ROW = "0, GPU-0, 00000000:1B:00.0, NVIDIA B300, 612.5, 1100, 97, 100, 200, 40, 1900, 0x4, 10.3, Disabled, None"


def _edited(lines: list[str]) -> st.SearchStrategy[str]:
    """A real line, with a piece of it taken out, doubled or replaced."""
    odd = st.one_of(
        st.text(max_size=12),
        st.sampled_from(["NaN", "-Inf", '"', "\\", "{", "}", ",", " ", "\x1b[2J", "1e999", "9e307", " -1"]),
    )

    @st.composite
    def draw(draw: st.DrawFn) -> str:
        line = draw(st.sampled_from(lines))
        for _ in range(draw(st.integers(0, 3))):
            start = draw(st.integers(0, len(line)))
            end = draw(st.integers(start, min(len(line), start + 20)))
            line = line[:start] + draw(odd) + line[end:]
        return line

    return draw()


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12,
)


_WORD = st.one_of(_JSON, st.sampled_from(["²", "٣", "-1", "1e9", "9" * 5000, *_KERNEL]))


def _object(*names: str, inner: st.SearchStrategy[Any] = _JSON) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), inner, max_size=len(names))


def _none(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


def _finite(found: object) -> None:
    json.dumps(found, allow_nan=False, default=str)


def metrics(drawn: tuple[list[str], int]) -> None:
    lines, cut = drawn
    data = "\n".join(lines).encode("utf-8", "replace") + b"\n"
    whole, pieces = Sieve(), Sieve()
    whole.feed(data)
    for part in (data[:cut], data[cut:]):
        pieces.feed(part)
    assert pieces.text() == whole.text()
    assert pieces.lines == whole.lines
    values = set()
    for word in data.decode(errors="replace").replace("}", " ").split():
        with contextlib.suppress(ValueError):
            values.add(float(word))
    for scrape in (parse_metrics("\n".join(lines), 1.0), parse_metrics(whole.text(), 2.0)):
        samples = [sample for found in scrape.samples.values() for sample in found]
        assert all(math.isfinite(sample.value) and sample.value in values for sample in samples)
        found = reading(None, scrape)
        _finite(asdict(found))
    half = len(lines) // 2
    _finite(asdict(reading(parse_metrics("\n".join(lines[:half]), 1.0), parse_metrics("\n".join(lines[half:]), 2.0))))
    now = parse_metrics(whole.text(), 2.0)
    both = reading(parse_metrics(whole.text(), 1.0), now)
    assert both.tokens_per_s is None or not now.total("generation_tokens_total") or both.tokens_per_s >= 0


def log(drawn: list[str]) -> None:
    lines = [parse(raw, at=float(at)) for at, raw in enumerate(drawn)]
    for raw, line in zip(drawn, lines, strict=True):
        assert len(line.text) <= TEXT_LIMIT
        assert not [sign for sign in line.text if unicodedata.category(sign) in ("Cc", "Cf", "Cs")]
        assert line.text == sanitise(raw)
        assert all(key in line.text and value in line.text for key, value in line.fields)
        assert all((found := number(line, key)) is None or math.isfinite(found) for key, _ in line.fields)
        assert (stall_s(line) or 0.0) >= 0
    found = classify(lines)
    if found is not None:
        assert {one.text for one in found.evidence} <= {line.text for line in lines}
        assert found.rank is None or any(found.rank.split()[-1].lstrip("TPrank") in line.text for line in lines)
    _finite(asdict(one) if (one := reading_from_log(lines, float(len(lines)))) else None)


def journal(drawn: bytes | dict[str, Any]) -> None:
    raw = drawn if isinstance(drawn, bytes) else json.dumps(drawn).encode()
    found = parse_entry(raw)
    if found is not None:
        assert isinstance(found["text"], str)
        assert math.isfinite(found["at"])
        assert json.loads(encode(found)) == found


def guard(drawn: bytes | dict[str, Any]) -> None:
    raw = drawn if isinstance(drawn, bytes) else json.dumps(drawn).encode()
    found = guards.parse(raw, "kernel")
    if found is None:
        return
    assert isinstance(found.text, str)
    assert math.isfinite(found.at)
    assert all(word is None or isinstance(word, str) for word in (found.cursor, found.invocation))
    assert found.pid is None or found.pid >= 0
    match = xid(found)
    if match is not None:
        _finite({**match.evidence, "pid": match.pid, "action": match.action})
        assert "NVRM" in found.text


def smi(drawn: str) -> None:
    lost_in(drawn)
    found = parse_row(drawn, list(FIELDS))
    if found is None:
        return
    words = [word.strip() for word in drawn.split(",")]
    for name, value in found.items():
        if isinstance(value, str):
            assert value in words
        elif isinstance(value, int | float) and not isinstance(value, bool) and name != "lost":
            assert any(_same(word, value) for word in words)
    assert json.loads(encode({"t": "gpus", "gpus": [found]}))["gpus"] == [found]
    (one,) = keep((), from_line({"gpus": [found]}))
    _finite(asdict(one))


def _same(word: str, value: float) -> bool:
    try:
        read = int(word, 16) if word.startswith("0x") else float(word)
    except ValueError:
        return False
    return read == value


def server_info(drawn: Any) -> None:
    info, loads = read_server_info(drawn), read_loads(drawn)
    told = repr(drawn)
    json.loads(encode({"t": "loads", "body": drawn}), parse_constant=_none)
    if info is not None:
        _finite(asdict(info))
        assert info.version is None or repr(info.version) in told
        assert "sk-secret" not in json.dumps(chosen(drawn), default=str) or "sk-secret" not in told
        assert "sk-secret" not in repr(info) or info.version == "sk-secret"
    if loads is not None:
        _finite(asdict(loads))


def xids(drawn: list[tuple[float, str]]) -> None:
    told = Xids()
    for at, line in drawn:
        told = told.after_line(at, line)
    assert len(told.events) <= len(drawn)
    for event in told.events:
        assert str(event.number) in event.text or event.number == 79


def lines(drawn: list[dict[str, Any]]) -> None:
    state = State("box")
    for at, line in enumerate(drawn):
        state = reduce(state, line, float(at))
    json.dumps(status_json(snapshot(state, float(len(drawn)))), allow_nan=False)


def packed(drawn: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(Unpacker().lines(drawn), list)


@dataclass(frozen=True)
class Target:
    check: Callable[[Any], None]
    inputs: st.SearchStrategy[Any]


_INFO = _object(
    *("version", "status", "internal_states", "tp_size", "page_size", "decode_cuda_graph_bs", "avg_spec_accept_length"),
    *("speculative_num_draft_tokens", "max_running_requests", "disable_cuda_graph"),
)
_LOADS = _object("num_running_reqs", "num_reqs", "token_usage", "gen_throughput", "timestamp", "speculative")
_ENTRY = _object("at", "text", "cursor", "priority", "pid")
_GPU = _object("index", "uuid", "pci", "name", "power_w", "throttle", "lost", "mig", "recovery", "util")
_ANY_LINE = st.one_of(
    st.fixed_dictionaries(
        {"t": st.just("gpus")}, optional={"via": _JSON, "gpus": st.lists(_GPU, max_size=3), "present": _JSON}
    ),
    st.fixed_dictionaries({"t": st.just("log")}, optional={"source": _JSON, "entries": st.lists(_ENTRY, max_size=3)}),
    st.fixed_dictionaries({"t": st.just("metrics")}, optional={"text": _edited(_SCRAPE), "lines": _JSON, "at": _JSON}),
    st.fixed_dictionaries({"t": st.sampled_from(["loads", "info"])}, optional={"body": st.one_of(_JSON, _INFO)}),
    st.fixed_dictionaries(
        {"t": st.sampled_from(["hello", "ready", "unit", "ddtune", "note", "gap", "xid", "journal"])},
        optional={
            **dict.fromkeys(
                ("at", "status", "port", "props", "argv", "schedulers", "schedulers_expected", "text", "running"), _JSON
            ),
            **dict.fromkeys(("stable", "txn", "history", "source", "number", "pci", "readable", "boottime"), _JSON),
        },
    ),
)

TARGETS = {
    "metrics": Target(metrics, st.tuples(st.lists(_edited(_SCRAPE), max_size=12), st.integers(0, 400))),
    "log": Target(log, st.lists(st.one_of(_edited(_LINES), _edited(_KERNEL), st.text(max_size=60)), max_size=12)),
    "journal": Target(
        journal,
        st.one_of(
            st.binary(max_size=60),
            _edited([entry(1.0, "x", "c", PRIORITY="6", _PID="7")]).map(lambda line: line.encode("utf-8", "replace")),
            _object("MESSAGE", "__REALTIME_TIMESTAMP", "__CURSOR", "PRIORITY", "_PID", "_LINE_BREAK", "_STREAM_ID"),
        ),
    ),
    "guard": Target(
        guard,
        st.one_of(
            st.binary(max_size=60),
            st.integers(0, 200_000).map(lambda depth: b'{"MESSAGE":' + b"[" * depth),
            _edited([entry(1.0, line, "c", _PID="7") for line in _KERNEL]).map(
                lambda line: line.encode("utf-8", "replace")
            ),
            _object("MESSAGE", "__REALTIME_TIMESTAMP", "__CURSOR", "_PID", "INVOCATION_ID", inner=_WORD),
        ),
    ),
    "nvidia_smi": Target(smi, _edited([_ROW])),
    "server_info": Target(
        server_info, st.one_of(_JSON, _INFO, st.fixed_dictionaries({"loads": st.lists(_LOADS, max_size=3)}))
    ),
    "xids": Target(xids, st.lists(st.tuples(st.floats(0, 1e9), _edited(_KERNEL)), max_size=10)),
    "collector_lines": Target(lines, st.lists(st.one_of(_ANY_LINE, _object("t", "at")), max_size=8)),
    "packed": Target(
        packed, st.one_of(st.binary(max_size=40), _edited(['{"z":"q1YqUbIy1FEqSSwpVbJSSi9ILVayqgUA"}']).map(str.encode))
    ),
}
