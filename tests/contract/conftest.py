"""What real servers answered, what the simulated engine answers, and what may differ."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
LIMIT_S = 30.0
BASE = ["--model-path", "/models/m", "--tp-size", "8", "--enable-metrics", "--enable-nccl-nvls", "--page-size", "1"]
TREE = [
    *("--speculative-algorithm", "DDTREE", "--speculative-draft-model-path", "/models/d"),
    *("--speculative-ddtree-budget", "8"),
]
GENERATE = {"text": "Describe a lake", "sampling_params": {"max_new_tokens": 200, "temperature": 0, "ignore_eos": True}}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}


@dataclass
class Recorded:
    """Bodies by the name of the sample that they are held against, and both logs of one run."""

    bodies: dict[str, str] = field(default_factory=dict)
    log: str = ""


@pytest.fixture(scope="session")
def sample() -> Callable[[str], str]:
    """``sample("0.5.23/generate.body")`` is what a real server said."""
    return lambda name: (HERE / "samples" / name).read_text(encoding="utf-8", errors="replace")


@pytest.fixture(scope="session")
def excused() -> dict[str, list[dict[str, str]]]:
    """What no sample holds, with where it is known from."""
    with (HERE / "not_in_samples.toml").open("rb") as source:
        return tomllib.load(source)


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """An engine with tree speculation, used and stopped."""
    return _record(tmp_path_factory.mktemp("tree"), [*BASE, *TREE], {"DDTUNE_SIM_TRAFFIC": "4"})


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """An engine without speculation and without graphs, used and stopped."""
    return _record(tmp_path_factory.mktemp("plain"), [*BASE, "--disable-cuda-graph"], {})


@pytest.fixture(scope="session")
def deaths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The logs of engines that died in every way that they know, by what was done to them."""
    folder = tmp_path_factory.mktemp("crashed")
    wide, middle = [*BASE, *TREE[:-1], "64"], [*BASE, *TREE[:-1], "12"]
    logs = {
        "budget 64": _died(folder, wide, {}),
        "budget 12": _died(folder, middle, {"DDTUNE_SIM_TRAFFIC": "16"}),
    }
    for scenario in ("oom_weights", "oom_graphs", "bad_exit"):
        logs[scenario] = _died(folder, [*BASE, *TREE], {"DDTUNE_SIM_SCENARIO": scenario})
    return logs


@pytest.fixture(scope="session")
def crashed(deaths: dict[str, str]) -> str:
    """All those logs."""
    return "\n".join(deaths.values())


def _begin(folder: Path, argv: list[str], env: dict[str, str]) -> tuple[subprocess.Popen[bytes], int, Path]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    log = folder / f"{port}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "ddtune.sim.engine", *argv, "--port", str(port)],
            stdout=out,
            stderr=out,
            env={**os.environ, "DDTUNE_SIM_SPEED": "100", "DDTUNE_SIM_WARM": "1", **env},
        )
    return process, port, log


def _died(folder: Path, argv: list[str], env: dict[str, str]) -> str:
    process, _, log = _begin(folder, argv, env)
    with _ending(process):
        process.wait(LIMIT_S)
    return log.read_text(errors="replace")


def _record(folder: Path, argv: list[str], env: dict[str, str]) -> Recorded:
    process, port, log = _begin(folder, argv, env)
    recorded = Recorded()
    with _ending(process):
        _until("the engine is ready", lambda: _status(port, "/ready") == 200)
        recorded.bodies["generate"] = _call(port, "/generate", GENERATE)
        recorded.bodies["generate_stream"] = _call(port, "/generate", {**GENERATE, "stream": True})
        recorded.bodies["generate_logprob"] = _call(
            port, "/generate", {**GENERATE, "return_logprob": True, "top_logprobs_num": 2}
        )
        recorded.bodies["completions"] = _call(port, "/v1/completions", {"prompt": "A lake", "max_tokens": 8})
        recorded.bodies["chat"] = _call(port, "/v1/chat/completions", {**CHAT, "max_tokens": 5})
        recorded.bodies["chat_stream"] = _call(port, "/v1/chat/completions", {**CHAT, "max_tokens": 5, "stream": True})
        recorded.bodies["bad_request"] = _call(port, "/generate", {"text": 5})
        recorded.bodies["too_long"] = _call(port, "/generate", {"text": "x " * 262_200})
        recorded.bodies["health"] = _call(port, "/health")
        with ThreadPoolExecutor(8) as pool:
            # Some run while the readings are taken.
            asked = [pool.submit(_call, port, "/generate", {**GENERATE, "rid": f"r{number}"}) for number in range(8)]
            for name, path in (
                ("metrics", "/metrics"),
                ("server_info", "/server_info"),
                ("model_info", "/model_info"),
                ("v1_loads", "/v1/loads"),
                ("v1_models", "/v1/models"),
            ):
                recorded.bodies[name] = _call(port, path)
            for one in asked:
                one.result(LIMIT_S)
            long = pool.submit(_call, port, "/generate", {"text": "x", "sampling_params": {"max_new_tokens": 200_000}})
            _until("a flush is refused", lambda: _status(port, "/flush_cache") == 400)
            _call(port, "/abort_request", {"abort_all": True})
            long.result(LIMIT_S)
        recorded.bodies["metrics_aborted"] = _call(port, "/metrics")
        recorded.bodies["metrics_after_prefill"] = _after_prefill(port)
        if not env:
            # Elsewhere the engine's own traffic is in the way.
            _until("the cache is flushed", lambda: _status(port, "/flush_cache") == 200)
        recorded.bodies["flush_cache"] = _call(port, "/flush_cache", {})
        process.terminate()
        process.wait(LIMIT_S)
    recorded.log = log.read_text(errors="replace")
    return recorded


def _after_prefill(port: int) -> str:
    """``/metrics`` when the last pass was a prefill, however many decode passes were in a graph."""
    found = ""

    def lies() -> bool:
        nonlocal found
        _call(port, "/generate", {"text": "A lake", "sampling_params": {"max_new_tokens": 1}})
        found = _call(port, "/metrics")
        return gauge(found) == 0.0

    _until("a prefill is the last pass", lies)
    return found


def gauge(metrics: str) -> float:
    """What the engine's own word for graphs is in a body of ``/metrics``."""
    (value,) = re.findall(r"^sglang:is_cuda_graph{.*} (\S+)$", metrics, re.MULTILINE)
    return float(value)


def _call(port: int, path: str, body: Any = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            text: str = answer.read().decode()
    except urllib.error.HTTPError as refused:
        text = refused.read().decode()
    return text


def _status(port: int, path: str) -> int | None:
    """None while nothing listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=LIMIT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return None


def _until(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.02)


@contextlib.contextmanager
def _ending(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(LIMIT_S)
