"""What is left behind is cleared by pid and start time alone, and what is somebody else's is named."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddtune.onhost import gpu_memory, holders, residue, store
from ddtune.onhost.paths import Install, Paths

UNIT = "engine.service"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_memory, "read", lambda: None)
    monkeypatch.setattr(residue, "_shared_memory", lambda _paths: None)
    monkeypatch.setattr(residue, "PORT_S", 0.2)


def _clear(root: Path, seen: dict[str, int], port: int = 1) -> residue.Residue | None:
    paths = Paths(str(root)).unit(UNIT)
    paths.ensure_run()
    store.write_json(paths.processes, {"cgroup": "", "pids": seen})
    return residue.clear(Install(), paths, port)


def test_k5_11_a_process_that_was_seen_in_the_unit_is_killed(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    began = holders.began(child.pid)
    assert began is not None
    assert _clear(tmp_path, {str(child.pid): began}) is None
    assert child.wait(5) == -9


def test_a_pid_that_was_given_again_is_left_alone(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    began = holders.began(child.pid)
    assert began is not None
    assert _clear(tmp_path, {str(child.pid): began - 1}) is None
    assert child.poll() is None


def test_a_foreign_holder_of_the_port_is_named_and_left_alone(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        found = _clear(tmp_path, {}, port)
    assert found is not None
    assert found.cause == "port_in_use"
    assert f"port {port} is held by pid " in found.action
    assert f"systemctl start {UNIT}" in found.action


def test_a_listener_on_another_address_is_in_nobodys_way(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.9", 0)) as held:
        assert _clear(tmp_path, {}, held.getsockname()[1]) is None


def test_an_embedded_host_is_never_cleared(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    paths = Paths(str(tmp_path)).unit(UNIT)
    paths.ensure_run()
    store.write_json(paths.processes, {"cgroup": "", "pids": {str(child.pid): holders.began(child.pid)}})
    assert residue.clear(Install(root=str(tmp_path)), paths, 1) is None
    assert child.poll() is None


def test_k5_11_memory_of_no_process_needs_a_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residue, "GPU_S", 0.0)
    monkeypatch.setattr(gpu_memory, "read", lambda: gpu_memory.Used((), ((3, 101044),)))
    found = _clear(tmp_path, {})
    assert found is not None
    assert found.cause == "residue"
    assert "GPU 3 (101044 MiB)" in found.action


def test_memory_is_told_apart_by_who_holds_it() -> None:
    used = gpu_memory.judge(
        [["0", "GPU-a", "101500"], ["1", "GPU-b", "90000"], ["2", "GPU-c", "600"]],
        [["4242", "GPU-a", "101044"], ["4243", "GPU-b", "10"]],
    )
    assert used.apps == ((4242, 101044), (4243, 10))
    assert used.unowned == ((1, 89990),)
    with pytest.raises(ValueError, match="N/A"):
        gpu_memory.judge([["0", "GPU-a", "1"]], [["7", "GPU-a", "[N/A]"]])


def test_processes_are_described_with_owner_and_age(child: subprocess.Popen[bytes]) -> None:
    said = holders.described(child.pid)
    assert said.startswith(f"pid {child.pid} (sleep, of root for ") or "(sleep, of " in said
    assert holders.described(2**22 + 1) == f"pid {2**22 + 1}"
