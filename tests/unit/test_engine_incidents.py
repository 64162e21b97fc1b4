from __future__ import annotations

from collections.abc import Iterable

import pytest

from ddtune.engine.incidents import classify
from ddtune.engine.log import parse
from ddtune.engine.model import Incident, LogLine
from tests.unit.engine_samples import log


def lines(texts: Iterable[str], source: str = "unit", at: float = 100.0) -> list[LogLine]:
    return [parse(text, at=at + index * 0.1, source=source) for index, text in enumerate(texts)]


def found(texts: Iterable[str]) -> Incident:
    incident = classify(lines(texts))
    assert incident is not None
    return incident


def test_gloo_after_an_illegal_access_is_not_the_network() -> None:
    unit = lines(
        [
            "[2026-06-18 11:02:07 TP3] Scheduler hit an exception: Traceback (most recent call last):",
            '  File "/opt/sglang/model_executor/cuda_graph_runner.py", line 9, in replay',
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
            "[PG ID 2 PG GUID 3 Rank 3] watchdog: CUDA error: an illegal memory access was encountered",
            "[2026-06-18 11:02:09 TP0] Scheduler hit an exception: ... RuntimeError: [gloo/transport/tcp/pair.cc] "
            "Connection closed by peer",
            "[2026-06-18 11:02:09] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
        ]
    )
    kernel = lines(
        ["NVRM: Xid (PCI:0000:1b:00): 31, pid=4242, name=python3, channel 0x00000009, MMU Fault"], "kernel", 101
    )
    incident = classify([*unit, *kernel], {"0000:1b:00": 3})
    assert incident is not None
    assert (incident.cause, incident.rank, incident.gpu) == ("illegal_memory_access", "TP3", 3)
    assert "graph" in incident.note
    texts = [evidence.text for evidence in incident.evidence]
    assert texts[0] == "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    assert any("gloo" in text for text in texts[1:])
    assert incident.evidence[-1].source == "kernel"


def test_cublas_after_an_illegal_access_is_the_illegal_access() -> None:
    incident = found(
        [
            "[2026-01-01 00:00:00 TP1] CUDA error: an illegal memory access was encountered",
            "[2026-01-01 00:00:00 TP2] RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED",
        ]
    )
    assert (incident.cause, incident.rank) == ("illegal_memory_access", "TP1")


def test_cublas_of_another_rank_just_before_an_illegal_access_is_not_the_cause() -> None:
    cublas = "[2026-01-01 00:00:00 TP0] RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"
    illegal = "[2026-01-01 00:00:01 TP3] CUDA error: an illegal memory access was encountered"
    incident = found([cublas, illegal])
    assert (incident.cause, incident.rank) == ("illegal_memory_access", "TP3")
    assert found([cublas]).cause == "cublas_error"


def test_other_prefixes_and_ranks() -> None:
    incident = found(
        [
            "(SGLangEngine pid=952, ip=192.0.2.19) [2025-11-06 01:16:21 TP0 EP0] Scheduler hit an exception: Traceback",
            "RuntimeError: CUDA error: CUBLAS_STATUS_INTERNAL_ERROR",
        ]
    )
    assert (incident.cause, incident.rank) == ("cublas_error", "TP0")


def test_illegal_instruction_and_device_assert_are_classes_of_their_own() -> None:
    assert (
        found(["torch.AcceleratorError: CUDA error: an illegal instruction was encountered"]).cause
        == "illegal_instruction"
    )
    incident = found(["vectorized gather kernel index out of bounds", "CUDA error: device-side assert triggered"])
    assert incident.cause == "device_assert"
    assert "late" in incident.note


def test_memory_that_ends_at_graph_capture() -> None:
    incident = found(
        [
            "[2026-01-01 00:00:00 TP7] Exception: Capture cuda graph failed: CUDA out of memory. "
            "Tried to allocate 448.00 MiB. GPU 7 has a total capacity of 95.00 GiB",
        ]
    )
    assert (incident.cause, incident.gpu, incident.rank) == ("oom_graph_capture", 7, "TP7")


@pytest.mark.parametrize(("name", "cause"), [("oom_capture", "oom_graph_capture"), ("oom_start", "oom_weights")])
def test_real_memory_faults(name: str, cause: str) -> None:
    incident = classify(log(name))
    assert incident is not None
    assert (incident.cause, incident.gpu) == (cause, 0)
    assert "CUDA out of memory" in incident.evidence[0].text


def test_memory_that_ends_in_service() -> None:
    incident = found(
        [
            "[2026-01-01 00:00:00] The server is fired up and ready to roll!",
            "[2026-01-01 00:10:00 TP2] Scheduler hit an exception: Traceback (most recent call last):",
            '  File "/opt/sglang/scheduler.py", line 3, in event_loop_overlap',
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB. GPU 2 has a total capacity of 1 GiB",
        ]
    )
    assert (incident.cause, incident.rank) == ("oom_serving", "TP2")


def test_the_first_exception_wins() -> None:
    incident = found(
        [
            "[2026-01-01 00:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):",
            "IndexError: list index out of range",
            "[2026-01-01 00:00:00] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
            "--- Logging error ---",
            "Traceback (most recent call last):",
            "ValueError: I/O operation on closed file.",
        ]
    )
    assert incident.cause == "engine_dead"
    assert incident.evidence[1].text == "IndexError: list index out of range"
    assert "ValueError: I/O operation on closed file." not in [evidence.text for evidence in incident.evidence]


def test_a_vague_word_gives_way_to_a_reason_soon_after() -> None:
    texts = ["Received sigquit from a child process. It usually means the child failed."]
    cause = "[2026-01-01 00:00:00 TP4] CUDA error: an illegal memory access was encountered"
    assert found([*texts, cause]).cause == "illegal_memory_access"
    late = [*lines(texts, at=0), *lines([cause], at=60)]
    incident = classify(late)
    assert incident is not None
    assert incident.cause == "engine_dead"


def test_nvls_is_named_behind_the_words_of_nccl() -> None:
    incident = found(
        [
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, unhandled cuda error",
            "ncclUnhandledCudaError: Call to CUDA function failed.",
            "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401",
        ]
    )
    assert incident.cause == "nvls_fabric"


def test_a_killed_scheduler() -> None:
    incident = classify(log("kill9"))
    assert incident is not None
    assert (incident.cause, incident.rank) == ("engine_dead", "TP0")


def test_a_watchdog_without_its_tool_is_a_watchdog() -> None:
    incident = found(
        [
            "[2026-01-01 00:00:00 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
            "Pyspy failed to dump PID 171. Error: /bin/dash: 1: py-spy: not found",
            "[2026-01-01 00:00:05] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
        ]
    )
    assert incident.cause == "watchdog_timeout"


@pytest.mark.parametrize("name", ["ngram16_g", "nospec_g", "hang", "startup-0.5.23", "startup-0.5.17"])
def test_runs_without_a_fault(name: str) -> None:
    assert classify(log(name)) is None


def test_no_lines() -> None:
    assert classify([]) is None
