"""Starts simulated engines as real processes."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

LIMIT_S = 20.0


class Running:
    """One engine process and the way to talk to it."""

    def __init__(self, folder: Path, argv: list[str], env: dict[str, str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._out, self._err = folder / f"{self.port}.out", folder / f"{self.port}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ddtune.sim.engine", "--port", str(self.port), *argv],
                stdout=out,
                stderr=err,
                env={**os.environ, **env},
            )

    @property
    def log(self) -> str:
        return self._err.read_text(errors="replace")

    @property
    def access(self) -> str:
        return self._out.read_text(errors="replace")

    def call(
        self, path: str, body: Any = None, timeout: float = LIMIT_S, method: str | None = None, **headers: str
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method or ("GET" if data is None else "POST"), path, data, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def generate(self, text: str, tokens: int = 16, **more: Any) -> dict[str, Any]:
        sampling = {"max_new_tokens": tokens, "temperature": 0, **more}
        status, body = self.call("/generate", {"text": text, "sampling_params": sampling})
        assert status == 200, body
        answer: dict[str, Any] = json.loads(body)
        return answer

    def status(self, path: str, timeout: float = 1.0) -> int | None:
        try:
            return self.call(path, timeout=timeout)[0]
        except OSError:
            return None

    def until(self, holds: Callable[[], Any], what: str, limit_s: float = LIMIT_S) -> None:
        deadline = time.monotonic() + limit_s
        while not holds():
            assert time.monotonic() < deadline, f"{what} did not come; log ends with {self.log[-1500:]}"
            time.sleep(0.02)

    def ready(self) -> Running:
        self.until(lambda: self.status("/ready") == 200 or self.process.poll() is not None, "ready")
        assert self.process.poll() is None, self.log[-2000:]
        return self

    def said(self, text: str) -> None:
        self.until(lambda: text in self.log, f"the line {text!r}")

    def schedulers(self) -> list[int]:
        pid = self.process.pid
        return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def ended(self, limit_s: float = LIMIT_S) -> int:
        return self.process.wait(limit_s)

    def metric(self, name: str, **labels: str) -> float:
        text = self.call("/metrics")[1].decode()
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        found = [
            float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if line.startswith((f"sglang:{name}{{", f"sglang:{name} ")) and all(label in line for label in wanted)
        ]
        return sum(found)


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """``start(budget, *flags, speed=…, warm=…, env=…)``; budget None is no speculation, graphs and NVLS are on."""
    begun: list[Running] = []

    def go(
        budget: int | None = 8,
        *flags: str,
        speed: float = 50,
        warm: bool = True,
        metrics: bool = True,
        env: dict[str, str] | None = None,
    ) -> Running:
        argv = ["--model-path", "/models/m", "--tp-size", "8", "--enable-nccl-nvls", "--max-running-requests", "128"]
        argv += ["--enable-metrics"] if metrics else []
        if budget is not None:
            argv += ["--speculative-algorithm", "DDTREE", "--speculative-draft-model-path", "/models/d"]
            argv += ["--speculative-ddtree-budget", str(budget)]
        simulated = {"DDTUNE_SIM_SPEED": str(speed), "DDTUNE_SIM_WARM": "1" if warm else "0", **(env or {})}
        running = Running(tmp_path, [*argv, *flags], simulated)
        begun.append(running)
        return running

    yield go
    for running in begun:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait(LIMIT_S)
