"""How an engine fails and stops, seen from outside its process."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

Start = Callable[..., Any]
ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
TRAFFIC = {"DDTUNE_SIM_TRAFFIC": "16"}


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def _gone(pid: int) -> bool:
    try:
        return _state(pid) in "ZX"
    except (OSError, ProcessLookupError):
        return True


def test_an_illegal_access_freezes_http_before_everything_is_killed(start: Start) -> None:
    engine = start(12, env=TRAFFIC, speed=20).ready()
    children = engine.schedulers()
    engine.said("Sleeping 5 seconds before crash diagnostics")
    frozen_at = time.monotonic()
    assert engine.status("/model_info", timeout=0.5) is None
    # The port is open all the same.
    socket.create_connection(("127.0.0.1", engine.port), 1).close()
    assert engine.ended() == -9
    assert (time.monotonic() - frozen_at) * 20 >= 60
    order = [
        ILLEGAL,
        "[PG ID 2 PG GUID 3 Rank ",
        "Connection closed by peer",
        "SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
        "Sleeping 5 seconds before crash diagnostics",
        "kill_process_tree called: parent_pid=",
    ]
    at = [engine.log.index(text) for text in order]
    assert at == sorted(at)
    assert engine.log.index("Scheduler hit an exception: Traceback") < at[0]
    engine.until(lambda: all(map(_gone, children)), "the end of the schedulers")


def test_a_crash_is_quick_when_its_diagnostics_are_off(start: Start) -> None:
    off = {"SGLANG_CUDA_COREDUMP_BEFORE_CRASH": "0", "SGLANG_PYSPY_DUMP_BEFORE_CRASH": "0"}
    engine = start(16, speed=1, env={**TRAFFIC, **off}).ready()
    assert engine.ended() == -9
    assert "Sleeping 5 seconds" not in engine.log


def test_a_middle_budget_serves_small_batches(start: Start) -> None:
    engine = start(14, speed=100).ready()
    with ThreadPoolExecutor(7) as pool:
        made = list(pool.map(lambda number: engine.generate(f"Tale {number}", 200, ignore_eos=True), range(7)))
    assert [one["meta_info"]["completion_tokens"] for one in made] == [200] * 7
    assert engine.process.poll() is None


def test_the_same_budget_without_graphs_serves_large_batches(start: Start) -> None:
    engine = start(14, "--disable-cuda-graph", speed=100, env=TRAFFIC).ready()
    engine.until(lambda: engine.metric("num_requests_total") > 20, "finished requests")
    assert engine.process.poll() is None


def test_a_cublas_error_ends_the_warm_up(start: Start) -> None:
    engine = start(64, speed=200)
    assert engine.ended() == -9
    assert "CUBLAS_STATUS_EXECUTION_FAILED" in engine.log
    assert "fired up and ready to roll" not in engine.log


def test_without_warm_up_the_first_decode_meets_it(start: Start) -> None:
    engine = start(64, "--skip-server-warmup", speed=200).ready()
    with pytest.raises(OSError, match=r".*"):
        engine.generate("x", 8)
    assert engine.ended() == -9


def test_garbage_is_served_in_good_health_at_accept_length_one(start: Start) -> None:
    engine = start(32, env=TRAFFIC).ready()
    text = "The tin of nails stands on the shelf."
    copies = [
        engine.generate(f"Repeat the following text exactly.\n<text>\n{number} {text}\n</text>", 60)
        for number in range(5)
    ]
    assert not [copy for copy in copies if text in copy["text"]]
    assert {copy["meta_info"]["spec_accept_length"] for copy in copies} == {1.0}
    engine.said("accept len: 1.00, accept rate: 0.00,")
    assert engine.metric("spec_accept_length") == 1.0
    assert engine.status("/health") == 200


def test_accept_one_keeps_the_text_right(start: Start) -> None:
    engine = start(env={"DDTUNE_SIM_SCENARIO": "accept_one"}).ready()
    answer = engine.generate("What is the capital of France?", 20)
    assert answer["text"] == "The capital of France is Paris."
    assert answer["meta_info"]["spec_accept_length"] == 1.0


def test_empty_answers(start: Start) -> None:
    engine = start(env={"DDTUNE_SIM_SCENARIO": "@budget>=8:empty"}).ready()
    answer = engine.generate("What is the capital of France?", 20)
    assert (answer["text"], answer["meta_info"]["finish_reason"]["type"]) == ("", "stop")


def test_a_hang_after_some_requests(start: Start) -> None:
    engine = start(8, "--watchdog-timeout", "60", speed=50, env={"DDTUNE_SIM_SCENARIO": "hang:1"}).ready()
    engine.generate("one", 8)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(engine.call, "/generate", {"text": "two"}, 15)
        engine.until(lambda: engine.status("/health", timeout=5) == 503, "bad health")
        assert "Health check failed. Server couldn't get a response from detokenizer for last 20" in engine.log
        assert engine.status("/model_info") == 200
        assert engine.status("/server_info", timeout=0.3) is None
        engine.said("watchdog timeout (self.watchdog_timeout=60,")
        assert engine.ended() == -9
        with pytest.raises(OSError, match=r".*"):
            waiting.result(5)


def test_a_killed_scheduler_takes_the_engine_along(start: Start) -> None:
    engine = start(speed=50).ready()
    children = engine.schedulers()
    os.kill(children[3], signal.SIGKILL)
    killed_at = time.monotonic()
    engine.said(f"Subprocess scheduler_3 (pid={children[3]}) crashed with exit code -9. Triggering SIGQUIT")
    assert time.monotonic() - killed_at < 1.0
    assert engine.ended() == -9
    assert (time.monotonic() - killed_at) * 50 >= 65


def test_with_every_scheduler_gone_the_wait_is_short(start: Start) -> None:
    engine = start(speed=10).ready()
    for child in engine.schedulers():
        os.kill(child, signal.SIGKILL)
    assert engine.ended(5) == -9
    assert "No live scheduler processes found; skipping py-spy and CUDA coredump." in engine.log


def test_a_stopped_scheduler_hangs_generation_and_not_the_server(start: Start) -> None:
    engine = start(speed=10).ready()
    child = engine.schedulers()[5]
    os.kill(child, signal.SIGSTOP)
    engine.until(lambda: _state(child) == "T", "the stopped scheduler")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(engine.generate, "Describe a lake", 8)
        assert engine.status("/model_info") == 200
        engine.until(
            lambda: json.loads(engine.call("/v1/loads")[1])["loads"][0]["num_running_reqs"] == 1, "the request"
        )
        assert not waiting.done()
        os.kill(child, signal.SIGCONT)
        assert waiting.result(10)["meta_info"]["completion_tokens"] == 8
    assert engine.status("/health", timeout=5) == 200


def test_a_stopped_scheduler_dies_with_the_engine(start: Start) -> None:
    engine = start().ready()
    child = engine.schedulers()[0]
    os.kill(child, signal.SIGSTOP)
    engine.process.kill()
    engine.ended()
    engine.until(lambda: _gone(child), "the end of the stopped scheduler")


def test_an_orderly_stop_answers_what_runs_and_ends_with_kill(start: Start) -> None:
    engine = start(speed=10).ready()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(engine.generate, "Describe a lake", 1200, ignore_eos=True)
        engine.until(
            lambda: json.loads(engine.call("/v1/loads")[1])["loads"][0]["num_running_reqs"] == 1, "the request"
        )
        engine.process.terminate()
        engine.said("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        assert engine.status("/health") == 503
        assert engine.status("/ready") == 503
        assert engine.status("/model_info") == 200
        assert waiting.result(15)["meta_info"]["completion_tokens"] == 1200
    assert engine.ended() == -9
    assert "Gracefully exiting... Remaining number of requests 0." in engine.log


def test_a_stop_before_http_is_up_dies_of_the_signal(start: Start) -> None:
    engine = start(warm=False, speed=10)
    engine.said("Init torch distributed begin.")
    children = engine.schedulers()
    engine.process.terminate()
    assert engine.ended() == -15
    engine.until(lambda: all(map(_gone, children)), "the end of the schedulers")


def test_a_scheduler_that_dies_during_the_start(start: Start) -> None:
    engine = start(warm=False, speed=30)
    engine.said("Load weight begin.")
    os.kill(engine.schedulers()[2], signal.SIGKILL)
    assert engine.ended() == 1
    assert "Rank 2 scheduler died during initialization (exit code: -9)" in engine.log


@pytest.mark.parametrize(
    ("scenario", "line", "status"),
    [
        ("bad_exit", "ValueError: ", 1),
        ("oom_weights", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", -9),
        ("oom_graphs", "Capture cuda graph failed: CUDA out of memory. Tried to allocate", -9),
    ],
)
def test_starts_that_fail(start: Start, scenario: str, line: str, status: int) -> None:
    engine = start(env={"DDTUNE_SIM_SCENARIO": scenario})
    assert engine.ended() == status
    assert line in engine.log
    if status == -9:
        assert "Received sigquit from a child process. It usually means the child failed." in engine.log


def test_a_start_that_never_gets_past_the_weights(start: Start) -> None:
    engine = start(warm=False, speed=300, env={"DDTUNE_SIM_SCENARIO": "slow_start"})
    engine.said("32/64")
    time.sleep(0.7)
    assert "Load weight end" not in engine.log
    assert engine.status("/ready") is None


def test_a_crash_after_some_time(start: Start) -> None:
    engine = start(speed=100, env={"DDTUNE_SIM_SCENARIO": "crash_after:30", "DDTUNE_SIM_TRAFFIC": "2"}).ready()
    assert engine.ended() == -9
    assert ILLEGAL in engine.log


def test_a_late_port(start: Start) -> None:
    engine = start(warm=False, speed=300, env={"DDTUNE_SIM_SCENARIO": "port_late:300"})
    engine.said("Engine startup timings (s)")
    assert engine.status("/ready") is None
    engine.ready()


def test_a_port_in_use_fails_the_start(start: Start) -> None:
    first = start().ready()
    second = start(8, "--port", str(first.port))
    assert second.ended() == 1
    assert "address already in use" in second.log


def test_the_gpu_file_is_written_while_it_starts_serves_and_dies(start: Start, tmp_path: Any) -> None:
    state = tmp_path / "gpus.json"
    engine = start(12, speed=30, env={**TRAFFIC, "DDTUNE_SIM_STATE": str(state)})
    read: list[Any] = []

    def gone() -> bool:
        if state.exists():
            read.append(json.loads(state.read_text()))
        return engine.process.poll() is not None

    engine.until(gone, "the end")
    assert {len(one["gpus"]) for one in read} == {8}
    assert all(one["at"] <= time.time() for one in read)
    assert max(one["gpus"][0]["util"] for one in read) == 100
    last = json.loads(state.read_text())
    assert last["gpus"][0]["memory_used_mib"] < 1000
