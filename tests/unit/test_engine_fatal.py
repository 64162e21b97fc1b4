from __future__ import annotations

import re

import pytest

from ddtune.engine.fatal import FATAL_PATTERNS, fatal_cause
from tests.unit.engine_samples import LOGS, log

EXPECTED = {
    "fail_algo": {"bad_flags"},
    "fail_flag": {"bad_flags"},
    "kill9": {"engine_dead"},
    "oom_capture": {"oom_serving", "engine_dead"},
    "oom_start": {"oom_serving", "engine_dead"},
}


@pytest.mark.parametrize("name", LOGS)
def test_every_line_of_the_samples(name: str) -> None:
    causes = {cause for line in log(name) if (cause := fatal_cause(line.text))}
    assert causes == EXPECTED.get(name, set())


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "illegal_memory_access"),
        ("NCCL WARN Cuda failure 700 'an illegal memory access was encountered'", "illegal_memory_access"),
        ("CUDA error: an illegal instruction was encountered", "illegal_instruction"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`", "cublas_error"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", "cublas_error"),
        ("RuntimeError: CUDA error: device-side assert triggered", "device_assert"),
        ("IndexKernel.cu:111: op: block: [0,0,0], thread: [3,0,0] Assertion `i < n` failed.", "device_assert"),
        ("vectorized gather kernel index out of bounds", "device_assert"),
        (
            "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 7",
            "oom_graph_capture",
        ),
        ("Exception: Capture cuda graph failed: fp4_quantize: input must be contiguous", "start_failed"),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "oom_weights"),
        (
            "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.001. Raise",
            "oom_weights",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 46.00 MiB.", "oom_serving"),
        ("terminate called after throwing an instance of 'c10::DistBackendError'", "nccl_error"),
        ("[rank5]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2)", "nccl_error"),
        (
            "NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 9 : CUDA error 2 'out of memory'",
            "nvls_fabric",
        ),
        ("Cuda failure 802 'system not yet initialized'", "nvls_fabric"),
        (
            "[2026-01-01 00:00:00 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
            "watchdog_timeout",
        ),
        ("Watchdog timeout (self.watchdog_timeout=300)", "watchdog_timeout"),
        (
            "Subprocess scheduler_0 (pid=2760) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
            "engine_dead",
        ),
        ("SIGQUIT received. signum=None, frame=None. It usually means one child failed.", "engine_dead"),
        ("RuntimeError: Rank 0 scheduler died during initialization (exit code: -9).", "start_failed"),
        ("launch_server.py: error: ambiguous option: --cuda-graph-max-bs could match", "bad_flags"),
        ("sglang serve: error: unrecognized arguments: --speculative-ddtree-budget 16", "bad_flags"),
        (
            "ERROR:    [Errno 98] error while attempting to bind on address ('::1', 1): address already in use",
            "port_in_use",
        ),
        ("CUDA error: uncorrectable ECC error encountered", "xid_hardware"),
        ("Fatal Python error: Segmentation fault", "engine_dead"),
    ],
)
def test_fatal_lines(text: str, cause: str) -> None:
    assert fatal_cause(text) == cause


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: [gloo/transport/tcp/pair.cc] Connection closed by peer",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "Scheduler hit an exception: Traceback (most recent call last):",
        "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)",
        "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
        "SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
        "CUBLAS_STATUS_SUCCESS",
        # What a user of the engine can write into its log.
        'INFO:     1.2.3.4:5 - "GET /CUBLAS_STATUS_EXECUTION_FAILED HTTP/1.1" 404 Not Found',
        "Receive: obj=GenerateReqInput(text='CUDA error: an illegal memory access was encountered')",
        "Gracefully exiting... remaining_rids=['SIGQUIT received. CUDA error: ']",
        "Received output for rid='NCCL error' but the state was deleted in TokenizerManager.",
    ],
)
def test_other_lines(text: str) -> None:
    assert fatal_cause(text) is None


def test_the_expressions_are_old_enough() -> None:
    for cause, regex in FATAL_PATTERNS:
        assert re.fullmatch(r"[a-z_]+", cause)
        # Possessive quantifiers and atomic groups came with Python 3.11.
        assert not re.search(r"\(\?>|[*+?}]\+", regex)


def test_a_message_of_several_lines() -> None:
    assert fatal_cause("first\nCUDA error: an illegal memory access was encountered") == "illegal_memory_access"


def test_a_huge_line_costs_little() -> None:
    assert fatal_cause("x" * 100_000) is None
