from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddtune.engine import exposition
from ddtune.onhost import collect_metrics, collect_smi, releases
from ddtune.onhost.collect_api import Api, Key
from ddtune.onhost.collect_config import parse
from ddtune.onhost.collect_ddtune import Ddtune
from ddtune.onhost.collect_journal import matters, parse_entry
from ddtune.onhost.collect_keys import Keys
from ddtune.onhost.collect_outbox import LOG_BYTES_KEPT, Outbox
from ddtune.onhost.collect_unit import expected_schedulers, is_engine
from ddtune.onhost.paths import UnitPaths
from tests.unit.collector_box import entry
from tests.unit.engine_samples import filtered, text


def _taken(outbox: Outbox) -> list[dict[str, object]]:
    return [json.loads(line) for line in iter(outbox.take, None)]


def test_of_readings_that_cannot_be_sent_the_newest_stay() -> None:
    outbox = Outbox()
    for at in range(100):
        outbox.reading({"t": "gpus", "at": at})
        outbox.reading({"t": "unit", "at": at})
    outbox.event({"t": "note", "text": "x"})
    lines = _taken(outbox)
    assert lines[0]["t"] == "note"
    assert [line["at"] for line in lines if line["t"] == "gpus"] == [96, 97, 98, 99]
    assert [line["t"] for line in lines[1:5]] == ["gpus", "unit", "gpus", "unit"]


def test_log_lines_that_cannot_be_sent_leave_a_gap_and_bounded_memory() -> None:
    outbox = Outbox()
    for at in range(1000):
        outbox.log("unit", {"at": at, "text": "x" * 8000})
    gap, *rest = _taken(outbox)
    entries = [one for line in rest for one in line["entries"]]  # type: ignore[attr-defined]  # JSON
    assert gap["t"] == "gap"
    assert gap["at"] == entries[0]["at"] - 1
    assert entries[-1]["at"] == 999
    assert sum(len(one["text"]) for one in entries) < LOG_BYTES_KEPT
    assert len(rest) > 1


def test_no_key_leaves_the_host_in_a_line_of_the_log(tmp_path: Path) -> None:
    file, argv = tmp_path / "key", ("python3", "-m", "sglang.launch_server", "--admin-api-key", "adm-'planted\\")
    file.write_text("sk-planted-1\n")
    keys = Keys(str(file))
    keys.argv = lambda: argv
    outbox = Outbox(hidden=keys.hidden)
    lines = (
        f"server_args={ {'api_key': 'sk-planted-1', 'admin_api_key': argv[-1]} }",
        f"--api-key sk-planted-2 --admin-api-key={argv[-1]}",
        f"the word sk-planted-1 in a sentence, and {json.dumps(argv[-1])}",
        "Authorization: Bearer sk-planted-3",
        "Decode batch, #running-req: 3, #token: 900, gen throughput (token/s): 250.00",
    )
    for line in lines:
        outbox.log("unit", {"at": 1.0, "text": line})
    sent = json.loads(outbox.take() or b"")
    assert "planted" not in json.dumps(sent)
    assert sent["entries"][-1]["text"] == lines[-1]
    # The next start has another one, and lines of the one before are still to come.
    argv = ("python3", "-m", "sglang.launch_server", "--api-key", "sk-planted-4")
    assert "planted" not in keys.hidden("sk-planted-4 was adm-'planted\\")


def test_what_the_engine_room_reads_is_what_the_collector_sends() -> None:
    assert set(collect_metrics.FAMILIES) == exposition.FAMILIES
    for name in ("metrics-0.5.23-load.txt", "ngram16_g_metrics_c16.txt"):
        whole, sent = text(name), filtered(text(name))
        assert exposition.parse(sent).samples.keys() == exposition.parse(whole).samples.keys()
        for family in exposition.FAMILIES:
            assert exposition.parse(sent).total(family) == exposition.parse(whole).total(family)
        assert len(sent) < len(whole) * 0.6


def test_a_journal_entry_in_each_of_its_shapes() -> None:
    assert parse_entry(entry(1.5, "x", "c", PRIORITY="3", _PID="9").encode()) == {
        "at": 1.5,
        "cursor": "c",
        "text": "x",
        "priority": 3,
        "pid": 9,
    }
    assert parse_entry(entry(1.0, [104, 105], "c").encode())["text"] == "hi"  # type: ignore[index]
    assert len(parse_entry(entry(1.0, "y" * 100_000, "c").encode())["text"]) < 9000  # type: ignore[index]
    for odd in (b"", b"{", b"[]", b"7", entry(1.0, None, "c").encode(), b'{"MESSAGE":"x"}'):
        assert parse_entry(odd) is None


@pytest.mark.parametrize(
    ("source", "text", "kept"),
    [
        ("unit", '[2026-01-01 00:00:00] INFO:     127.0.0.1:5 - "GET /metrics HTTP/1.1" 200 OK', False),
        ("unit", 'INFO:     127.0.0.1:5 - "GET /v1/loads?include=core HTTP/1.1" 200 OK', False),
        ("unit", 'INFO:     127.0.0.1:5 - "GET /ready HTTP/1.1" 503 Service Unavailable', True),
        ("unit", 'INFO:     127.0.0.1:5 - "POST /generate HTTP/1.1" 200 OK', True),
        ("kernel", "usb 1-1: new device", False),
        ("kernel", "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.", True),
        ("kernel", "Out of memory: Killed process 9 (python3)", True),
    ],
)
def test_what_of_the_journal_is_sent(source: str, text: str, kept: bool) -> None:
    assert matters(source, text) is kept


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("0, G, P, N, 1.5, 2, 3, 4, 5, 6, 7, 0x4, 9.0, Disabled, None, 0", (1.5, 4, False)),
        ("1, G, P, N, [N/A], 2, 3, 4, 5, 6, 7, [Not Supported], 9.0, [N/A], [N/A], [N/A]", (None, None, False)),
        ("2, G, P, N, ERR!, ERR!, ERR!, ERR!, 5, 6, 7, ERR!, 9.0, ERR!, Reset, ERR!", (None, None, True)),
    ],
)
def test_a_row_of_nvidia_smi(row: str, expected: tuple[object, ...]) -> None:
    reading = collect_smi.parse_row(row, list(collect_smi.FIELDS))
    assert reading
    assert (reading["power_w"], reading["throttle"], reading["lost"]) == expected


def test_what_is_no_row_is_left_out() -> None:
    keys = list(collect_smi.FIELDS)
    lost = "Unable to determine the device handle for GPU0000:1B:00.0: Unknown Error"
    assert collect_smi.parse_row(lost, keys) is None
    assert collect_smi.lost_in(lost) == "0000:1B:00.0"
    assert collect_smi.parse_row("a, b", keys) is None


@pytest.mark.parametrize(
    ("argv", "count"),
    [
        ("x --tp-size 8", 8),
        ("x --tp 4 --pp-size 2", 8),
        ("x --tensor-parallel-size=8 --dp-size 8 --enable-dp-attention", 8),
        ("x --tp 2 --dp 3", 6),
        ("x --tp 16 --nnodes 2", 8),
        ("x", 1),
    ],
)
def test_how_many_schedulers_a_command_line_makes(argv: str, count: int) -> None:
    assert expected_schedulers(argv.split()) == count


def test_the_engine_is_told_by_its_command_line() -> None:
    assert is_engine(["/v/bin/python3", "-u", "-m", "sglang.launch_server", "--tp", "8"])
    assert is_engine(["/v/bin/python3", "/v/bin/sglang", "serve", "m"])
    assert not is_engine(["vim", "sglang.launch_server"])
    assert not is_engine([])


def test_a_configuration_of_another_version_is_read() -> None:
    assert parse(b'{"unit": null, "api_port": 1, "new": 2}').api_port == 1
    with pytest.raises(ValueError, match="object"):
        parse(b"[1]")


def test_a_port_where_nothing_listens_says_so() -> None:
    lines = Api(1, Key(None, lambda: (), lambda _text: None), lambda _text: None).lines()
    assert [(line["t"], line["status"], line["port"]) for line in lines] == [("ready", None, "refused")]


def test_a_key_file_that_cannot_be_read_is_said_once(tmp_path: Path) -> None:
    said: list[str] = []
    key = Key(str(tmp_path / "key"), lambda: (), said.append)
    assert key.headers() == key.headers() == ({}, False)
    assert len(said) == 1


def test_what_runs_is_named_by_its_command_line(tmp_path: Path) -> None:
    paths = UnitPaths(str(tmp_path), "a.service")
    Path(paths.releases).mkdir(parents=True)
    one, two, three = (
        releases.put(paths, {"schema": 1, "argv": argv, "env_set": env, "env_unset": [], "cwd": "/"}, {"profile": name})
        for name, argv, env in (("one", ["e", "1"], {}), ("two", ["e", "1"], {"K": "2"}), ("three", ["e", "3"], {}))
    )
    releases.set_stable(paths, one)
    reader = Ddtune(paths)

    def running(argv: tuple[str, ...], invocation: str) -> tuple[str, str] | None:
        found = reader.line(argv, invocation)["running"]
        return found and (found["release"], found["profile"])

    assert running(("e", "3"), "i") == (three, "three")
    assert running(("e", "1"), "i") == (one, "one")
    assert running(("e", "9"), "i") is None
    assert running((), "i") is None
    Path(paths.run).mkdir(parents=True)
    Path(paths.txn).write_text(json.dumps({"trial_invocation": "i", "candidate": two}))
    assert running(("e", "1"), "i") == (two, "two")
    assert running(("e", "1"), "j") == (one, "one")
    Path(paths.chosen).write_text(json.dumps({"invocation": "j", "release": two}))
    assert running(("e", "1"), "j") == (two, "two")


def test_whether_the_launcher_made_this_start(tmp_path: Path) -> None:
    paths = UnitPaths(str(tmp_path), "a.service")
    reader = Ddtune(paths)
    assert reader.line(("e",), "i")["launched"] is None
    Path(paths.state).mkdir(parents=True)
    Path(paths.site).write_text(json.dumps({"profile": "p", "site_dialect": {"name": "site-x", "text": "long"}}))
    assert reader.line(("e",), "i")["launched"] is False
    assert reader.line((), "i")["launched"] is None
    assert reader.line(("e",), "i")["site"] == {"profile": "p"}
    Path(paths.run).mkdir(parents=True)
    Path(paths.chosen).write_text(json.dumps({"invocation": "i"}))
    assert reader.line(("e",), "i")["launched"] is True
    assert reader.line(("e",), "j")["launched"] is False
    Path(paths.chosen).write_text("not for this viewer")
    assert reader.line(("e",), "i")["launched"] is None


def test_what_json_has_no_word_for_is_not_available() -> None:
    outbox = Outbox()
    outbox.reading({"t": "loads", "body": {"loads": [{"gen_throughput": float("nan"), "x": (1, float("-inf"))}]}})
    (line,) = _taken(outbox)
    assert line["body"] == {"loads": [{"gen_throughput": None, "x": [1, None]}]}
