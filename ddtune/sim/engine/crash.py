"""What the log says when the engine dies, in the order in which a real one says it."""

from __future__ import annotations

from ddtune.sim.engine.lines import Log

_SITE = "/opt/sglang/lib/python3.12/site-packages/sglang/srt"
ERRORS = {
    "illegal_access": (
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "Search for `cudaErrorIllegalAddress' in https://docs.nvidia.com/cuda/cuda-runtime-api/"
        "group__CUDART__TYPES.html for more information.",
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
        "incorrect.",
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    ),
    "cublas": (
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa, opb, m, n, "
        "k, &falpha, a, CUDA_R_16BF, lda, b, CUDA_R_16BF, ldb, &fbeta, c, CUDA_R_16BF, ldc, compute_type, "
        "CUBLAS_GEMM_DEFAULT_TENSOR_OP)`",
    ),
}
_REPLAY_FRAMES = (
    ("managers/scheduler.py", 6365, "run_scheduler_process", "scheduler.run_event_loop()"),
    ("managers/scheduler.py", 2211, "event_loop_normal", "result = self.run_batch(batch)"),
    ("managers/scheduler.py", 4120, "run_batch", "batch_result = self.draft_worker.forward_batch_generation(batch)"),
    ("speculative/ddtree_worker.py", 412, "forward_batch_generation", "logits_output = self._verify(batch, tree)"),
    (
        "model_executor/runner/decode_cuda_graph_runner.py",
        871,
        "replay",
        "self.graphs[self.bs].replay()",
    ),
)
_LOAD_FRAMES = (
    ("managers/scheduler.py", 6290, "run_scheduler_process", "scheduler = Scheduler("),
    ("managers/tp_worker.py", 333, "__init__", "self._init_model_runner()"),
    ("model_executor/model_runner.py", 1053, "load_model", "loaded = load_model_with_memory_saver("),
    ("layers/quantization/compressed_tensors/moe.py", 190, "create_weights", "torch.empty("),
)
_CAPTURE_FRAMES = (
    ("managers/scheduler.py", 6290, "run_scheduler_process", "scheduler = Scheduler("),
    ("managers/scheduler.py", 970, "init_all_cuda_graphs", "self.tp_worker.init_cuda_graphs()"),
    ("model_executor/runner/decode_cuda_graph_runner.py", 603, "__init__", "raise Exception("),
)


def traceback(frames: tuple[tuple[str, int, str, str], ...]) -> str:
    """Frames as Python prints them, under the line that a scheduler logs with an exception."""
    lines = ["Scheduler hit an exception: Traceback (most recent call last):"]
    for path, number, function, code in frames:
        lines += [f'  File "{_SITE}/{path}", line {number}, in {function}', f"    {code}"]
    return "\n".join(lines)


def replay_error(log: Log, fault: str, rank: int) -> None:
    """The first bad rank's exception, and its NCCL watchdog's word."""
    log.rank(traceback(_REPLAY_FRAMES), rank)
    for line in ERRORS[fault]:
        log.raw(line)
    if fault == "illegal_access":
        log.raw(f"[PG ID 2 PG GUID 3 Rank {rank}] watchdog: CUDA error: an illegal memory access was encountered")


def secondary_errors(log: Log, rank: int, ranks: list[int]) -> None:
    """What the other ranks see of it: closed connections, which are no cause."""
    for other in ranks:
        log.rank("Scheduler hit an exception: Traceback (most recent call last):", other)
        log.raw(f'  File "{_SITE}/managers/scheduler.py", line 1402, in recv_requests')
        log.raw("    recv_reqs = broadcast_pyobj(")
        log.raw(
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer "
            f"[127.0.0.1]:{30511 + rank * 37}"
        )
    if ranks:
        log.raw(
            f"[rank{ranks[-1]}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, "
            "remote process exited or there was a network error"
        )


def sigquit(log: Log) -> None:
    """The server's word when a child has failed while serving."""
    log.server("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")


def child_gone(log: Log, rank: int, pid: int, code: int) -> None:
    """The watchdog's word on a dead scheduler process."""
    log.server(
        f"Subprocess scheduler_{rank} (pid={pid}) crashed with exit code {code}. Triggering SIGQUIT for cleanup..."
    )


def diagnostics_wait(log: Log) -> None:
    """The pause before the diagnostics."""
    log.server("Sleeping 5 seconds before crash diagnostics to let GPU activity settle.")


def pyspy(log: Log, pids: list[int]) -> None:
    """The stack dumps of the live schedulers, which need a program that is not there."""
    for pid in pids:
        log.server(f"Pyspy failed to dump PID {pid}. Error: /bin/sh: 1: py-spy: not found")


def coredump_wait(log: Log, own_s: float) -> None:
    """The long wait for CUDA core dumps."""
    log.server(f"Triggered CUDA coredump on live scheduler processes; waiting {own_s:.0f} seconds before exit.")


def no_schedulers(log: Log) -> None:
    """Said in place of the diagnostics when every scheduler is gone."""
    log.server("No live scheduler processes found; skipping py-spy and CUDA coredump.")


def kill_tree(log: Log, pid: int) -> None:
    """The last line of an engine that ends itself."""
    log.server(f"kill_process_tree called: parent_pid={pid}, include_parent=True, pid={pid}")


def out_of_memory(log: Log, phase: str, rank: int, available_gb: float) -> None:
    """A start that runs out of GPU memory while it loads weights or captures graphs."""
    mib = "2.62 GiB" if phase == "weights" else "448.00 MiB"
    text = (
        f"CUDA out of memory. Tried to allocate {mib}. GPU {rank} has a total capacity of 274.31 GiB of which "
        f"{available_gb * 1024:.2f} MiB is free. Including non-PyTorch memory, this process has "
        f"{274.31 - available_gb:.2f} GiB memory in use."
    )
    if phase == "weights":
        log.rank(traceback(_LOAD_FRAMES), rank)
        log.raw(f"torch.OutOfMemoryError: {text}\n")
    else:
        log.rank(traceback(_CAPTURE_FRAMES), rank)
        log.raw(f"Exception: Capture cuda graph failed: {text}")
        log.raw("Possible solutions:")
        log.raw("1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)")
        log.raw("2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)")
        log.raw(
            "3. disable CUDA graph by --cuda-graph-backend-decode=disabled. (Not recommended. Huge performance loss)"
        )
    log.server("Received sigquit from a child process. It usually means the child failed.")


def bad_algorithm(log: Log, error: str) -> None:
    """The traceback of arguments that parse and cannot be resolved."""
    log.raw("Traceback (most recent call last):")
    for path, number, function, code in (
        ("launch_server.py", 90, "<module>", "server_args.resolve_once()"),
        ("srt/server_args.py", 316, "resolve_once", "handle_speculative_decoding(self)"),
    ):
        log.raw(f'  File "/opt/sglang/lib/python3.12/site-packages/sglang/{path}", line {number}, in {function}')
        log.raw(f"    {code}")
    log.raw(f"ValueError: {error}")
