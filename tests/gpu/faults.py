"""What breaks on a host with a real engine, and what ddtune makes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.gpu import load
from tests.gpu.served import Said, Served, finish, wait

READY_S = 240.0
BACK_S = 300.0
LIVE = ("ARMED", "TRIAL", "SOAK", "COMMITTING")


class Watch:
    """Follows a transaction's file: when it left its trial, by this machine's clock."""

    def __init__(self, host: Served) -> None:
        self._host, self._stop = host, threading.Event()
        self.decided_at: float | None = None
        self._thread = threading.Thread(target=self._follow)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._stop.is_set() and self.decided_at is None:
            if self._host.txn().get("state") not in LIVE:
                self.decided_at = time.monotonic()
            self._stop.wait(0.02)


def trial(host: Served, profile: str) -> subprocess.Popen[str]:
    """Starts a switch and returns once its trial has been started."""
    before = host.txn().get("op")
    # A release that an earlier fault brought into quarantine is as good as any here.
    process = host.start("switch", host.name, profile, "--yes", "--force", "--json")

    def started() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"the switch ended before its trial: {process.communicate()[0][-800:]}")
        txn = host.txn()
        return txn.get("op") != before and txn.get("state") == "TRIAL" and bool(txn.get("trial_invocation"))

    wait("the trial is started", started, READY_S)
    return process


def in_gate(host: Served, profile: str) -> subprocess.Popen[str]:
    """Starts a switch and returns once its trial serves and is being gated."""
    process = trial(host, profile)
    wait("the trial serves", lambda: process.poll() is not None or host.txn().get("ready"), READY_S)
    return process


def scheduler_killed(host: Served) -> dict[str, Any]:
    """kill -9 of the scheduler while a trial is gated."""
    return _signalled(host, signal.SIGKILL)


def scheduler_stopped(host: Served) -> dict[str, Any]:
    """SIGSTOP of the scheduler while a trial is gated: the port lives, nothing is generated."""
    return _signalled(host, signal.SIGSTOP)


def _signalled(host: Served, number: signal.Signals) -> dict[str, Any]:
    stable = host.stable()
    process = in_gate(host, "ngram8")
    pids = host.schedulers()
    with Watch(host) as watch:
        at = time.monotonic()
        for pid in pids:
            os.kill(pid, number)
        said = finish(process, BACK_S)
    return told(host, said, at, watch.decided_at, stable) | {"signalled": len(pids)}


def memory_filled(host: Served) -> dict[str, Any]:
    """The GPU's memory is taken by somebody else while a trial starts; given back once it has died."""
    stable = host.stable()
    with filler() as (process, line):
        switch = trial(host, "ngram8")
        with Watch(host) as watch:
            at = time.monotonic()
            _tell(process)
            took = line()
            wait("the trial is over", lambda: watch.decided_at or switch.poll() is not None, READY_S)
            _tell(process)
            process.wait(30)
            said = finish(switch, BACK_S)
    return told(host, said, at, watch.decided_at, stable) | {"took": took}


def wrong_flag(host: Served) -> dict[str, Any]:
    """A flag that the engine does not know."""
    stable, before = host.stable(), host.main_pid()
    at = time.monotonic()
    said = host.switch("wrong-flag", "--force")
    return told(host, said, at, None, stable) | {"restarted": host.main_pid() != before}


def sigterm_under_load(host: Served) -> dict[str, Any]:
    """Somebody ends the engine of a release in probation while it answers 11 requests."""
    metas: list[dict[str, Any]] = []
    stable, pid = host.stable(), host.main_pid()
    with load.flow(host, 11, metas, tokens=512) as failures:
        time.sleep(3.0)
        at = time.monotonic()
        before = len(metas)
        os.kill(pid, signal.SIGTERM)
    # Nobody sends more: an engine that drains waits for what comes meanwhile, too.
    wait("the engine ends", lambda: host.main_pid() != pid, 120)
    ended_s = time.monotonic() - at
    wait("it is started again", lambda: host.main_pid() not in (0, pid), 60)
    wait("it serves", host.healthy, BACK_S)
    back_s = time.monotonic() - at
    status = host.run("status", host.name, timeout=60).json
    history = host.run("history", host.name, timeout=60).json.get("history") or [{}]
    ended = next((line for line in history if line.get("event") == "late_crash"), history[0])
    return {
        "detected_s": round(ended_s, 1),
        "back_s": round(back_s, 1),
        "outcome": ended.get("event"),
        "cause": ended.get("cause"),
        "text": ended.get("text"),
        "answered": len(metas) - before,
        "failed": len(failures),
        "before": stable,
        "profile": status.get("service", {}).get("profile"),
        "argv": host.argv(),
    }


def told(host: Served, said: Said, at: float, decided_at: float | None, stable: str) -> dict[str, Any]:
    """What a switch said of its end, with the seconds since the fault."""
    answer = said.json
    back_s = round(time.monotonic() - at, 1)
    return {
        "exit": said.code,
        "outcome": answer.get("outcome"),
        "cause": answer.get("cause") or (answer.get("error") or {}).get("cause"),
        "message": answer.get("message") or (answer.get("error") or {}).get("message"),
        "evidence": (answer.get("evidence") or [])[:6],
        "findings": answer.get("findings"),
        "detected_s": None if decided_at is None else round(decided_at - at, 1),
        "back_s": back_s,
        "phases": answer.get("phases"),
        "on_stable": host.stable() == stable and host.healthy(),
        "argv": host.argv(),
        "progress": said.err[-1500:],
    }


@contextmanager
def filler() -> Iterator[tuple[subprocess.Popen[bytes], Any]]:
    """The program that fills the memory, ready; and what reads a line of its."""
    argv = [sys.executable, "-m", "tests.gpu.filler"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    out = process.stdout

    def line() -> str:
        return out.readline().decode().strip()

    try:
        if line() != "ready":
            raise RuntimeError("the program that takes the GPU's memory did not start")
        yield process, line
    finally:
        process.kill()
        process.wait(30)


def _tell(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
