"""Units and what they leave behind (kind K5 of the field cases): what comes in, and what is done or said."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from ddtune.onhost import canary, exec_lint, gpu_memory, holders, residue, store
from ddtune.onhost import txn as t
from ddtune.onhost.adopt_checks import filled_in
from ddtune.onhost.env_file import parse
from ddtune.onhost.paths import Install, Paths
from ddtune.profiles.model import Base, Profile
from ddtune.profiles.resolve import resolve
from tests.unit.cases.given import Given
from tests.unit.onhost_guard.fake import Bench
from tests.unit.test_profiles_resolve import DDTREE

UNIT = "engine.service"
ENGINE = "/usr/bin/python3 -m sglang.launch_server"


def test_k5_08(given: Given) -> None:
    """Quotes in an environment file are systemd's: what the process gets is shown, and kept byte for byte."""
    json_text = (
        '{"enable_multithread_load": true}' if not given.sibling else f'{{"threads": [{given.number(4)}, "a b"]}}'
    )
    args = f"--model-loader-extra-config {json_text} --served-model-name a"
    env = parse(f"SGL_ARGS='{args}'\n")
    assert env == {"SGL_ARGS": args}
    got = filled_in("$SGL_ARGS", env)
    assert got.startswith("--model-loader-extra-config {")
    assert '"' not in got
    (remark,) = exec_lint.lint(f"{ENGINE} $SGL_ARGS", env)
    assert "does not reach the engine whole" in remark
    running = Base((*ENGINE.split(), "--model-loader-extra-config", json_text, "--served-model-name", "a"), "/")
    release = resolve(running, Profile("p", {"budget": given.number(16), "graphs": False}), DDTREE)
    assert release.argv[: len(running.argv)] == running.argv


def test_k5_09(given: Given) -> None:
    """``${ARGS}`` is one argument however many flags it holds, and ``$ARGS`` is split."""
    size, port = str(given.number(8)), str(given.number(30000))
    name = "ARGS" if not given.sibling else "SGLANG_FLAGS"
    env = {name: f"--tp-size {size} --port {port}"}
    (remark,) = exec_lint.lint(f"{ENGINE} ${{{name}}}", env)
    assert f"as one argument, though it holds several (--tp-size, --port): write ${name}" in remark
    assert not exec_lint.lint(f"{ENGINE} ${name}", env)
    assert filled_in(f"${name}", env) == env[name]


def test_k5_11(given: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the unit's processes leave is ended, by pid and start time; a stranger is named and lives."""
    mib, gpu = given.number(101044, 3000, 200_000), given.rank(3)
    monkeypatch.setattr(gpu_memory, "read", lambda: None)
    monkeypatch.setattr(residue, "_shared_memory", lambda _paths: None)
    monkeypatch.setattr(residue, "PORT_S", 0.2)
    monkeypatch.setattr(residue, "GPU_S", 0.0)
    paths = Paths(str(tmp_path)).unit(UNIT)
    paths.ensure_run()
    named = ["bash", "-c", f"exec -a sglang::scheduler_TP{given.rank(3)} sleep 60"]
    with subprocess.Popen(named) as ours, subprocess.Popen(named) as foreign:
        try:
            began = holders.began(ours.pid)
            store.write_json(paths.processes, {"cgroup": "", "pids": {str(ours.pid): began}})
            assert residue.clear(Install(), paths, 1) is None
            assert ours.wait(5) == -9
            assert foreign.poll() is None

            used = gpu_memory.judge([[str(gpu), "GPU-a", str(mib)]], [[str(foreign.pid), "GPU-a", str(mib)]])
            monkeypatch.setattr(gpu_memory, "read", lambda: used)
            (named_one,) = residue.foreign(Install())
            assert f"left alone: pid {foreign.pid} (" in named_one
            assert f"holds {mib} MiB" in named_one
            assert residue.clear(Install(), paths, 1) is None

            lost = gpu_memory.judge([[str(gpu), "GPU-a", str(mib)]], [])
            monkeypatch.setattr(gpu_memory, "read", lambda: lost)
            found = residue.clear(Install(), paths, 1)
            assert found is not None
            assert f"GPU {gpu} ({mib} MiB)" in found.action

            with socket.create_server(("127.0.0.1", 0)) as held:
                found = residue.clear(Install(), paths, held.getsockname()[1])
            assert found is not None
            assert found.cause == "port_in_use"
            assert foreign.poll() is None
        finally:
            ours.kill()
            foreign.kill()


@pytest.mark.parametrize("stubborn", [None, "TERM"])
def test_k5_12(given: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stubborn: str | None) -> None:
    """systemd is asked to stop the unit first; only what outlives the grace is killed."""
    monkeypatch.setattr(canary, "try_once", lambda *_: "as ever")
    monkeypatch.setattr(canary, "abort_all", lambda *_: None)
    monkeypatch.setattr("ddtune.onhost.guard.LATE_LINES_S", 0.05)
    monkeypatch.setattr("ddtune.onhost.guard.UNIT_S", 0.02)
    bench = Bench(tmp_path)
    grace_s = given.number(50, 30, 90) / 1000
    bench.trial(stop_grace_s=grace_s)
    bench.unit.stubborn = stubborn
    bench.line(f"[2026-01-01 00:00:00 TP{given.rank(3)}] CUDA error: an illegal memory access was encountered")
    txn = bench.guard()
    assert txn.state == t.ROLLED_BACK
    assert bench.unit.calls[0] == "stop"
    assert ("kill" in bench.unit.calls) == (stubborn == "TERM")
    if stubborn:
        assert txn.times["rollback_stopped"] - txn.times["rollback_begun"] >= grace_s
