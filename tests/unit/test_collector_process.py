"""The collector as the real process that it is on a host."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ddtune.host.bundle import loader_argv, loader_payload
from tests.unit.collector_box import KEY, NVML, Box, box

LIMIT_S = 15.0
Line = dict[str, Any]


class Running:
    def __init__(self, config: bytes, nvml: str | None = NVML) -> None:
        self.process = subprocess.Popen(
            loader_argv(sys.executable), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.lines: list[Line] = []
        self._arrived: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        assert self.process.stdin
        extra = {"pynvml": nvml or "raise OSError('no driver here')"}
        self.process.stdin.write(loader_payload("ddtune.onhost.collector", extra) + config)
        self.process.stdin.flush()

    def until(self, wanted: Callable[[Line], object]) -> Line:
        """The first line that is wanted, an earlier one too."""
        for line in self.lines:
            if wanted(line):
                return line
        deadline = time.monotonic() + LIMIT_S
        while (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                line = self._arrived.get(timeout=left)
                if line is None:
                    break
                self.lines.append(line)
                if wanted(line):
                    return line
        raise AssertionError(f"not among {[line['t'] for line in self.lines]}; {self._said()}")

    def _read(self) -> None:
        assert self.process.stdout
        for text in self.process.stdout:
            self._arrived.put(json.loads(text))
        self._arrived.put(None)

    def _said(self) -> str:
        self.process.kill()
        assert self.process.stderr
        return self.process.stderr.read().decode()


@contextlib.contextmanager
def running(config: bytes, nvml: str | None = NVML) -> Iterator[Running]:
    started = Running(config, nvml)
    try:
        yield started
    finally:
        assert started.process.stdin
        with contextlib.suppress(OSError):
            started.process.stdin.close()
        started.process.wait(LIMIT_S)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Box, Running]]:
    with box(tmp_path_factory.mktemp("box")) as made, running(made.config()) as collector:
        yield made, collector


Seen = tuple[Box, Running]


def _of(kind: str) -> Callable[[Line], bool]:
    return lambda line: line["t"] == kind


def test_gauges_of_each_kind_come(seen: Seen) -> None:
    _, collector = seen
    for kind in ("gpus", "metrics", "unit"):
        collector.until(_of(kind))


def test_the_service_is_found_by_its_command_line(seen: Seen) -> None:
    hello = seen[1].until(_of("hello"))
    assert (hello["unit"], hello["units"], hello["proto"]) == ("engine.service", ["engine.service"], 1)


def test_each_gpu_value_stands_alone(seen: Seen) -> None:
    line = seen[1].until(lambda line: line["t"] == "gpus" and line["gpus"][0]["dram_util"] is not None)
    first, second, third = line["gpus"]
    assert line["via"] == "nvml"
    assert (first["power_w"], first["util"], first["memory_used_mib"], first["throttle"]) == (400.0, None, 1.0, 5)
    assert (first["graphics_util"], first["dram_util"]) == (1.5, 15.0)
    assert (first["nvlink_rx_mib_s"], first["nvlink_tx_mib_s"]) == (None, None)
    assert (second["power_w"], second["dram_util"], second["lost"]) == (400.001, None, False)
    assert (third["lost"], third["power_w"], third["temperature_c"], third["uuid"]) == (True, None, None, "GPU-2")


def test_the_engine_is_read_without_ever_being_asked_to_generate(seen: Seen) -> None:
    made, collector = seen
    text = collector.until(_of("metrics"))["text"]
    assert 'sglang:num_running_reqs{tp_rank="0"} 3.0' in text
    assert "histogram" not in text
    assert "python_info" not in text
    assert collector.until(_of("loads"))["body"]["loads"][0]["max_running_requests"] == 8
    ready = collector.until(_of("ready"))
    assert (ready["status"], ready["port"]) == (200, "open")
    collector.until(_of("info"))
    asked = {path.partition("?")[0] for path in made.requested}
    assert asked == {"/metrics", "/v1/loads", "/ready", "/server_info", "/get_server_info"}


def test_the_unit_comes_with_its_processes_and_without_its_key(seen: Seen) -> None:
    line = seen[1].until(lambda line: line["t"] == "unit" and line["schedulers"] == 2)
    assert line["schedulers_expected"] == 2
    assert line["props"]["InvocationID"] == "abc"
    assert "--tp-size" in line["argv"]
    assert all(KEY not in json.dumps(one) for one in seen[1].lines)


def test_both_journals_come_whole_and_only_what_matters_of_the_kernels(seen: Seen) -> None:
    made, collector = seen
    unit = collector.until(lambda line: line["t"] == "log" and line["source"] == "unit")
    assert [one["text"] for one in unit["entries"]] == ["Started engine.service", "[\ufffd]\x1b"]
    assert unit["entries"][1] | {"text": ""} == {"at": 2.0, "cursor": "u2", "text": "", "priority": 6, "pid": 77}
    kernel = collector.until(lambda line: line["t"] == "log" and line["source"] == "kernel")
    assert [one["cursor"] for one in kernel["entries"]] == ["k2"]
    assert all("-n 200" in call and "-f" in call for call in made.calls.read_text().splitlines())


def test_a_journal_without_permission_is_said(seen: Seen) -> None:
    note = seen[1].until(_of("note"))
    assert "systemd-journal" in note["text"]


def test_a_host_without_ddtune_is_said_to_be_that(seen: Seen) -> None:
    line = seen[1].until(_of("ddtune"))
    assert (line["adopted"], line["stable"], line["running"], line["txn"]) == (False, None, None, None)


def test_it_ends_with_its_children_at_end_of_input_and_wrote_nothing(tmp_path: Path) -> None:
    with box(tmp_path) as made:
        before = _tree(made.root)
        with running(made.config(cursors={"unit": "u9"})) as collector:
            collector.until(lambda line: line["t"] == "log" and line["source"] == "kernel")
            collector.until(lambda line: line["t"] == "log" and line["source"] == "unit")
        assert collector.process.returncode == 0
        assert _tree(made.root) == before
        assert any("--after-cursor=u9" in call for call in made.calls.read_text().splitlines())
        assert made.journal_pids()
        assert not [pid for pid in made.journal_pids() if os.path.exists(f"/proc/{pid}")]


def test_killed_it_leaves_nothing_running(tmp_path: Path) -> None:
    with box(tmp_path) as made:
        collector = Running(made.config())
        collector.until(lambda line: line["t"] == "log" and line["source"] == "kernel")
        collector.until(lambda line: line["t"] == "log" and line["source"] == "unit")
        collector.process.kill()
        collector.process.wait()
        deadline = time.monotonic() + LIMIT_S
        while [pid for pid in made.journal_pids() if os.path.exists(f"/proc/{pid}")]:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_it_ends_when_no_heartbeat_comes(tmp_path: Path) -> None:
    with box(tmp_path) as made:
        collector = Running(made.config(silence_s=0.3))
        assert collector.process.wait(LIMIT_S) == 0


def test_a_reader_that_stalls_does_not_stop_it_from_ending(tmp_path: Path) -> None:
    with box(tmp_path) as made:
        flood = "\n".join(_entry_text(place) for place in range(400))
        (made.root / "unit.jsonl").write_text(flood + "\n")
        process = subprocess.Popen(loader_argv(sys.executable), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin
        assert process.stdout
        process.stdin.write(loader_payload("ddtune.onhost.collector", {"pynvml": NVML}) + made.config(silence_s=1.0))
        process.stdin.flush()
        assert process.wait(LIMIT_S) == 0
        process.stdout.close()
        process.stdin.close()


def test_without_a_driver_the_rest_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with box(tmp_path) as made, running(made.config(unit="engine.service"), nvml=None) as collector:
        line = collector.until(_of("gpus"))
        assert (line["via"], line["gpus"]) == ("none", [])
        assert "no driver here" in line["error"]
        collector.until(_of("metrics"))


def test_nvidia_smi_stands_in_for_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    row = "GPU-x, 00000000:1B:00.0, NVIDIA B300, [N/A], 1100.00, 97, 100, 200, 40, 1900, 0x0000000000000004, 10.3"
    row += ", [N/A], None, 0"
    smi = tmp_path / "nvidia-smi"
    rows = f"echo '0, {row}'; echo '1, {row}'; sleep 0.3"
    smi.write_text(f"#!/bin/sh\n[ $1 != dmon ] || exit 1\nwhile :; do {rows}; done\n")
    smi.chmod(0o755)
    with box(tmp_path) as made, running(made.config(), nvml=None) as collector:
        line = collector.until(_of("gpus"))
        assert line["via"] == "nvidia-smi"
        assert [gpu["index"] for gpu in line["gpus"]] == [0, 1]
        gpu = line["gpus"][0]
        assert (gpu["power_w"], gpu["util"], gpu["throttle"], gpu["compute_capability"]) == (None, 97.0, 4, "10.3")


def test_a_reading_that_cannot_be_sent_ends_no_sampler(tmp_path: Path) -> None:
    broken = (
        NVML.replace("return 50", "return object() if next(looks) < 2 else 50")
        + "\nlooks = __import__('itertools').count()\n"
    )
    with box(tmp_path) as made, running(made.config(), nvml=broken) as collector:
        assert "GPU readings could not be read: TypeError" in collector.until(_of("note"))["text"]
        assert collector.until(_of("gpus"))["gpus"][0]["temperature_c"] == 50


def _entry_text(place: int) -> str:
    message = {"__REALTIME_TIMESTAMP": "1000000", "__CURSOR": f"c{place}", "MESSAGE": "x" * 8000}
    return json.dumps(message)


def _tree(root: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_mtime_ns) for path in root.rglob("*"))
