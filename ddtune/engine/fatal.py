"""Lines after which the engine does not come back: data for the guard on the host and for the classifier.

The guard runs under the host's own Python, so the expressions keep to what ``re`` of Python 3.9 knows. They are tried
in this order against one line at a time with ``re.search``.
"""

from __future__ import annotations

import re

# A prompt, a path or a request id comes from the engine's users; what they write must not roll a profile back.
_THEIRS = r"HTTP/\d(?:\.\d)?\" \d{3}|(?:Receive|Finish): obj=|rids?=|\b(?:text|prompt|messages)="
_OURS = rf"(?s)^(?!.*(?:{_THEIRS})).*"
# A watchdog prints the requests that it found behind its own word.
_OURS_FIRST = rf"(?s)^(?:(?!{_THEIRS}).){{0,200}}?"

_PATTERNS = (
    ("xid_hardware", r"CUDA error: uncorrectable (?:ECC|NVLink) error"),
    ("nvls_fabric", r"Failed to bind NVLink SHARP|Cuda failure 802\b|system not yet initialized"),
    ("nvls_fabric", r"(?:cuMulticast\w+|NVLS\b.*\bmulticast\b).*(?:fail|error|CUDA_ERROR)"),
    (
        "illegal_memory_access",
        r"an illegal memory access was encountered|cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS",
    ),
    ("illegal_instruction", r"an illegal instruction was encountered|cudaErrorIllegalInstruction"),
    ("device_assert", r"device-side assert triggered|cudaErrorAssert|CUDA_ERROR_ASSERT"),
    ("device_assert", r"gather kernel index out of bounds|block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion"),
    ("oom_graph_capture", r"Capture cuda graph failed:.*out of memory"),
    ("oom_weights", r"Not enough memory\. Please try to increase --mem-fraction-static"),
    ("oom_weights", r"weights leave no GPU memory for the KV cache"),
    ("oom_serving", r"\bOutOfMemoryError: |CUDA out of memory\. Tried to allocate|CUDA error: out of memory"),
    ("cublas_error", r"CUBLAS_STATUS_(?!SUCCESS)[A-Z_]+|cuBLAS Error:"),
    ("nccl_error", r"\bDistBackendError\b|\bNCCL error\b|ncclUnhandledCudaError|ncclSystemError|ncclInternalError"),
    ("nccl_error", r"Watchdog caught collective operation timeout"),
    ("watchdog_timeout", r"[Ww]atchdog timeout \(self\.watchdog_timeout=(?!.*self\.soft=True)"),
    ("port_in_use", r"\[Errno 98\]|[Aa]ddress already in use|\bEADDRINUSE\b|is used by a process already"),
    ("bad_flags", r"(?:launch_server(?:\.py)?|\bsglang(?: serve)?): error: |unrecognized arguments: -"),
    ("bad_flags", r"ambiguous option: -|Unknown speculative algorithm name"),
    ("start_failed", r"Capture cuda graph failed|Initialization failed\. warmup error"),
    ("start_failed", r"Rank \d+ scheduler died during initialization"),
    ("engine_dead", r"CUDA error: |terminate called after throwing|Fatal Python error: "),
    ("engine_dead", r"Subprocess \S+ \(pid=\d+\) crashed with exit code"),
    ("engine_dead", r"Received sigquit from a child process|SIGQUIT received\. "),
)

FATAL_PATTERNS: tuple[tuple[str, str], ...] = tuple(
    (cause, f"{_OURS_FIRST if cause == 'watchdog_timeout' else _OURS}(?:{regex})") for cause, regex in _PATTERNS
)
"""``(cause, regular expression)`` in order of preference for a line that matches several.

``oom_serving`` stands for every allocation that failed: where in the engine's life it was takes the lines before it
(ddtune.engine.incidents). What follows from another process's death (gloo, broken pipe, ncclRemoteError) is not here.
"""

_COMPILED = tuple((cause, re.compile(regex)) for cause, regex in FATAL_PATTERNS)
_ANY = re.compile("|".join(f"(?:{regex})" for _, regex in _PATTERNS))


def fatal_cause(text: str) -> str | None:
    """The cause that ``text`` is a fatal line for, or None."""
    if _ANY.search(text) is None:
        return None
    return next((cause for cause, regex in _COMPILED if regex.search(text)), None)
