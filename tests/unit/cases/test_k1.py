"""Crashes, logs and health (kind K1 of the field cases): what comes in, and what is shown."""

from __future__ import annotations

from ddtune.engine.log import TEXT_LIMIT
from ddtune.gate.plan import plan
from ddtune.onhost.collect_journal import parse_entry
from ddtune.profiles.store import load_profiles
from tests.unit.cases.given import READY, STARTED, Given, Watch, eight
from tests.unit.collector_box import entry

ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"


def test_k1_01(given: Given) -> None:
    """Gloo's complaint after an illegal access is not the network, and Xid 31 names the GPU."""
    bad, other, gpu = given.rank(3), given.rank(0), given.rank(5)
    watch = Watch().gpus(eight()).running("b16", {"budget": 16}, {"budget": 8}).systemd(STARTED).log(given.lines(READY))
    watch.later(130_000).log(
        given.lines(
            f"[2026-06-18 11:02:07 TP{bad}] Scheduler hit an exception: Traceback (most recent call last):",
            '  File "/opt/sglang/model_executor/cuda_graph_runner.py", line 9, in replay',
            ILLEGAL,
            f"[PG ID 2 PG GUID 3 Rank {bad}] watchdog: CUDA error: an illegal memory access was encountered",
            f"[2026-06-18 11:02:09 TP{other}] Scheduler hit an exception: ... RuntimeError: "
            "[gloo/transport/tcp/pair.cc] Connection closed by peer",
            "[2026-06-18 11:02:09] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
        )
    ).kernel(f"NVRM: Xid (PCI:0000:{0x1B + gpu:02x}:00): 31, pid=77, name=python3, channel 0x00000009, MMU Fault")
    (incident,) = watch.shown.incidents
    assert (incident.cause, incident.rank, incident.gpu) == ("illegal_memory_access", f"TP{bad}", gpu)
    assert (incident.xids, incident.confidence, incident.phase) == ((31,), "sure", "serving")
    assert (incident.profile, incident.changed) == ("b16", ("budget 8 → 16",))
    assert "graph" in incident.note
    assert any("gloo" in line.text for line in incident.evidence[1:])
    assert incident.elapsed_s is not None
    assert incident.elapsed_s > 36 * 3600


def test_k1_02(given: Given) -> None:
    """A crash without graphs is charged to the profile that has them off, like any other."""
    bus = f"{0x1B + given.rank(2):02x}"
    watch = Watch().gpus(eight()).running("graphs-off", {"graphs": False}, {"graphs": True})
    for run in range(5):
        watch.systemd(STARTED).log(given.lines(READY)).later(100)
        if run == 3:
            watch.log(given.lines(ILLEGAL)).kernel(f"NVRM: Xid (PCI:0000:{bus}:00): 31, pid=77, name=python3, x")
        watch.later(1000)
    (incident,) = watch.shown.incidents
    assert incident.changed == ("graphs on → off",)
    assert (incident.profile, len(incident.xids)) == ("graphs-off", 1)


def test_k1_04(given: Given) -> None:
    """Ray's and compose's prefixes, and rank tags of every kind."""
    rank = given.rank(0)
    for tags, shown in ((f"TP{rank}", f"TP{rank}"), (f"DP0 TP{rank} EP0", f"DP0 TP{rank}"), ("", None)):
        stamp = f"[2025-11-06 01:16:21{' ' if tags else ''}{tags}]"
        for prefix in ("(SGLangEngine pid=952, ip=192.0.2.19) ", "sglang_service-1  | ", *given.lines("")):
            texts = (f"{stamp} Scheduler hit an exception: Traceback (most recent call last):", ILLEGAL)
            watch = Watch().systemd(STARTED).log(prefix + text for text in texts)
            (incident,) = watch.shown.incidents
            assert (incident.cause, incident.rank) == ("illegal_memory_access", shown)


def test_k1_05(given: Given) -> None:
    """A fault that comes with many requests at once: the gate sends many, and it is not called memory."""
    used = given.number(4, 4, 20) / 100
    watch = (
        Watch()
        .systemd(STARTED)
        .log(
            given.lines(
                READY,
                f"[2026-01-01 00:00:00 TP{given.rank(1)}] Decode batch, #running-req: {given.number(24, 16, 32)}, "
                f"token usage: {used:.2f}, accept len: 8.80, cuda graph: True, #queue-req: 0",
                "RuntimeError: CUDA error: cudaErrorIllegalAddress",
            )
        )
    )
    assert [one.cause for one in watch.shown.incidents] == ["illegal_memory_access"]
    sizes = load_profiles()["b8-nvls"].gate
    assert max(plan(sizes, speculative=True, isolation=None).levels()) >= 16


def test_k1_07(given: Given) -> None:
    """The text blames the quantisation; what changed is the budget."""
    before, after = given.number(4), given.number(2, 1, 3)
    text = "Exception: Capture cuda graph failed: fp4_quantize: input must be contiguous"
    watch = Watch().running("small", {"budget": after, "topk": 4}, {"budget": before, "topk": 4})
    watch.systemd(STARTED).log(given.lines(f"[2026-01-01 00:00:00 TP{given.rank(0)}] Capture cuda graph begin.", text))
    (incident,) = watch.shown.incidents
    assert (incident.cause, incident.phase) == ("start_failed", "graphs")
    assert incident.changed == (f"budget {before} → {after}",)
    assert text in incident.evidence[0].text
    assert "quant" not in incident.note


def test_k1_08(given: Given) -> None:
    """A capture that fails at the start and a first request that fails are told apart."""
    rank = given.rank(0)
    stamp = f"[2026-01-01 00:00:00 TP{rank}]"
    opened = f"{stamp} Scheduler hit an exception: Traceback (most recent call last):"
    quit_line = "[2026-01-01 00:00:09] SIGQUIT received. signum=None, frame=None. It usually means one child failed."
    start = (
        Watch()
        .systemd(STARTED)
        .log(
            given.lines(
                f"{stamp} Capture draft cuda graph begin. This can take up to several minutes.",
                opened,
                "RuntimeError: num_active_captures_ > 0 INTERNAL ASSERT FAILED",
                quit_line,
            )
        )
    )
    first = Watch().systemd(STARTED).log(given.lines(READY, opened, "IndexError: list index out of range", quit_line))
    (at_start,), (at_first,) = start.shown.incidents, first.shown.incidents
    assert (at_start.phase, at_first.phase) == ("graphs", "serving")
    assert any("INTERNAL ASSERT" in line.text for line in at_start.evidence)
    assert any("IndexError" in line.text for line in at_first.evidence)
    assert first.unit().ready().shown.service.health != "serving"


def test_k1_10(given: Given) -> None:
    """Too much and too little memory, one run after the other, are shown as one sentence."""
    gpu = given.rank(3)
    more = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB. GPU {gpu} has a total capacity of 1"
    less = "ValueError: Not enough memory. Please try to increase --mem-fraction-static."
    weights = f"[2026-01-01 00:00:00 TP{gpu}] Load weight begin. avail mem=94.00 GB"
    watch = Watch().systemd(STARTED).log(given.lines(weights, more)).later(60)
    watch.systemd(STARTED).log(given.lines(weights, less))
    first, second = watch.shown.incidents
    assert (first.cause, first.gpu, second.cause) == ("oom_weights", gpu, "oom_weights")
    assert "no memory fraction between the two is feasible" in second.note
    assert any("Tried to allocate" in line.text for line in second.evidence)


def test_k1_11(given: Given) -> None:
    """Memory that ends while graphs are captured: which GPU, and how long after the start."""
    gpu, seconds = given.rank(7), given.number(90)
    watch = (
        Watch()
        .systemd(STARTED)
        .later(seconds)
        .log(
            given.lines(
                f"[2026-01-01 00:00:00 TP{gpu}] Exception: Capture cuda graph failed: CUDA out of memory. "
                f"Tried to allocate {given.number(448)}.00 MiB. GPU {gpu} has a total capacity of 95.00 GiB ..."
            )
        )
    )
    (incident,) = watch.shown.incidents
    assert (incident.cause, incident.gpu, incident.rank) == ("oom_graph_capture", gpu, f"TP{gpu}")
    assert incident.elapsed_s is not None
    assert abs(incident.elapsed_s - seconds) < 1


def test_k1_13(given: Given) -> None:
    """HTTP says 200 for ten minutes, and requests that it holds are never answered: dead."""
    held = given.number(2, 1, 9)
    text = f'sglang:num_running_reqs 0\nsglang:http_requests_active{{endpoint="/generate",method="POST"}} {held}\n'
    watch = Watch().systemd(STARTED)
    for _ in range(60):
        watch.later(10).unit().ready().metrics(text + "sglang:generation_tokens_total 350\n")
        watch.log(given.lines('INFO:     127.0.0.1:5 - "GET /health_generate HTTP/1.1" 200 OK'), step_s=0)
    service = watch.shown.service
    assert service.health == "dead"
    assert f"{held} requests wait" in service.health_why


def test_k1_15(given: Given) -> None:
    """Failed health checks while tokens are computed: busy, and how long it was silent by its own word."""
    stall = given.number(301, 60, 900)
    beat = (5 * 3600 + 47 * 60 + 54 - stall) % 86400
    clock = f"{beat // 3600:02}:{beat // 60 % 60:02}:{beat % 60:02}"
    failed = (
        "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. "
        f"tic start time: 05:47:54. last_heartbeat time: {clock}"
    )
    watch = Watch().systemd(STARTED).unit().ready()
    for step in range(30):
        prefill = f"[2026-01-01 05:47:5{step % 10} TP{given.rank(0)}] Prefill batch, #new-seq: 1, #new-token: 8192, "
        watch.later(4).unit().ready(503).log(given.lines(prefill + "#running-req: 9, #queue-req: 40", failed))
        watch.metrics(f'sglang:num_running_reqs 9\nsglang:realtime_tokens_total{{mode="prefill_compute"}} {step}\n')
    service = watch.shown.service
    assert service.health == "busy"
    assert f"{stall} s" in service.health_why
    assert not watch.shown.incidents


def test_k1_15_across_midnight(given: Given) -> None:
    after = given.number(120, 60, 600)
    text = f"Health check failed. tic start time: 00:00:{given.number(30, 1, 59):02}. last_heartbeat time: "
    tic = int(text[45:47]) if text[45:47].isdigit() else int(text.split("00:00:")[1][:2])
    beat = (tic - after) % 86400
    watch = (
        Watch().systemd(STARTED).unit().ready().log([f"{text}{beat // 3600:02}:{beat // 60 % 60:02}:{beat % 60:02}"])
    )
    assert watch.state.stall is not None
    assert watch.state.stall[1] == after


def test_k1_16(given: Given) -> None:
    """Kernels are compiled in service: busy, though nothing is answered for a minute."""
    watch = Watch().systemd(STARTED).log(given.lines(READY)).unit().ready().metrics("sglang:num_running_reqs 4\n")
    for step in range(given.number(9, 8, 14)):
        watch.later(10).unit().ready(None, "silent")
        watch.log(given.lines(f"[2026-01-01 00:00:00 TP{given.rank(0)}] DeepGEMM JIT compiling <fp8_gemm> {step}"))
    service = watch.shown.service
    assert (service.health, service.health_why) == ("busy", "it compiles kernels")


def test_k1_18(given: Given) -> None:
    """A scheduler without a traceback is gone and the main process lives: seven of eight is dead."""
    watch = Watch().systemd(STARTED).log(given.lines(READY)).unit(8).ready()
    watch.log(given.lines("terminate called after throwing an instance of 'c10::DistBackendError'"))
    watch.later(2).unit(7).ready()
    service = watch.shown.service
    assert (service.health, service.health_why) == ("dead", "7 of 8 scheduler processes live")
    assert [one.cause for one in watch.shown.incidents] == ["nccl_error"]


def test_k1_19(given: Given) -> None:
    """Half a megabyte of prompts in one line: a watchdog's timeout, and no prompt leaves the line's head."""
    first = given.number(128000)
    prompt = ", ".join([str(first)] * 80_000)
    whole = (
        f"[2026-01-01 00:00:00 TP{given.rank(0)}] Watchdog timeout (self.watchdog_timeout=300) "
        f"self.cur_batch.batch_size()=109, self.cur_batch.reqs=[Req(rid=abc, input_ids=[{prompt}], "
        "origin_input_text='a secret prompt')]"
    )
    assert len(whole) > 400_000
    parsed = parse_entry(entry(1.0, whole, "c").encode())
    assert parsed is not None
    later = f"Pyspy failed to dump PID {given.number(171)}. Error: /bin/dash: 1: py-spy: not found"
    watch = Watch().systemd(STARTED).log([*given.lines(parsed["text"]), prompt[:8000], *given.lines(later)])
    (incident,) = watch.shown.incidents
    assert incident.cause == "watchdog_timeout"
    assert any("py-spy" in line.text for line in incident.evidence[1:])
    texts = [line.text for line in (*watch.shown.log, *incident.evidence)]
    assert all(len(text) <= TEXT_LIMIT and str(first) not in text and "secret" not in text for text in texts)


def test_k1_21(given: Given) -> None:
    """Killed with 9 is not out of memory unless the kernel says so; a flood is one counted line."""
    count = given.number(900)
    flood = [
        f"Received output for rid='{number:032x}' but the state was deleted in TokenizerManager."
        for number in range(count)
    ]
    ended = "engine.service: Main process exited, code=killed, status=9/KILL"
    watch = Watch().systemd(STARTED).log(given.lines(READY, *flood), step_s=0.01).systemd(ended)
    (incident,) = watch.shown.incidents
    assert incident.cause == "killed"
    assert "does not say that memory" in incident.note
    counted = [line for line in watch.shown.log if line.count > 1]
    assert [line.count for line in counted] == [count - 2]
    killed = Watch().systemd(STARTED).log(given.lines(READY))
    killed.kernel(f"Out of memory: Killed process {given.number(77)} (python3) total-vm:1kB").systemd(ended)
    (incident,) = killed.shown.incidents
    assert (incident.cause, incident.confidence) == ("killed", "sure")
    assert "memory was used up" in incident.note


def test_k1_22(given: Given) -> None:
    """Fifteen minutes late is fifteen minutes of silence, and a burst of answers is no recovery."""
    late = given.number(930, 600, 1200)
    printed = 14 * 3600 + 45 * 60 + 24 + late
    stamp = f"{printed // 3600:02}:{printed // 60 % 60:02}:{printed % 60:02}"
    watch = Watch().systemd(STARTED).log(given.lines(READY)).unit().ready()
    watch.metrics("sglang:num_running_reqs 3\nsglang:generation_tokens_total 10\n")
    for _ in range(12):
        watch.later(10).unit().ready().metrics("sglang:num_running_reqs 3\nsglang:generation_tokens_total 10\n")
    burst = ['INFO:     10.0.0.1:5 - "GET /health HTTP/1.1" 200 OK'] * 40
    watch.log(given.lines(*burst, f"[2026-09-22 {stamp}] Health check failed. tic start time: 14:45:24"), step_s=0)
    assert watch.shown.service.health == "dead"
    assert watch.state.stall == (watch.at, late)


def test_k1_24(given: Given) -> None:
    """802 passes by itself, 401 does not; the ranks that said it are all named."""
    bad = [given.rank(one) for one in (1, 4, 6)]
    watch = (
        Watch()
        .systemd(STARTED)
        .log(
            given.lines(
                *(f"[2026-01-01 00:00:00 TP{one}] Cuda failure 802 'system not yet initialized'" for one in bad)
            )
        )
    )
    (incident,) = watch.shown.incidents
    assert (incident.cause, incident.ranks) == ("nvls_fabric", tuple(f"TP{one}" for one in bad))
    assert "one more try" in incident.note
    other = (
        Watch()
        .systemd(STARTED)
        .log(given.lines("Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401"))
    )
    assert [(one.cause, one.note) for one in other.shown.incidents] == [("nvls_fabric", "")]


def test_k1_25(given: Given) -> None:
    """A start that says nothing more: how long, and in which phase."""
    still = given.number(720, 300, 1200)
    watch = (
        Watch()
        .systemd(STARTED)
        .log(given.lines(f"[2026-01-01 00:00:00 TP{given.rank(0)}] Init torch distributed begin."), step_s=0)
    )
    watch.later(still).unit().ready(None, "refused").gpus(eight(util=100))
    service = watch.shown.service
    assert (service.health, service.phase) == ("starting", "launch")
    assert service.health_why == f"launch: no progress in the log for {still} s"


def test_k1_27(given: Given) -> None:
    """An illegal instruction is a class of its own."""
    text = f"[2026-01-01 00:00:00 TP{given.rank(2)}] CUDA error: an illegal instruction was encountered"
    (incident,) = Watch().systemd(STARTED).log(given.lines(READY, text)).shown.incidents
    assert (incident.cause, incident.rank) == ("illegal_instruction", f"TP{given.rank(2)}")


def test_k1_28(given: Given) -> None:
    """A device-side assert: the trace may name the wrong place, and the note says so."""
    rank = given.rank(2)
    watch = (
        Watch()
        .systemd(STARTED)
        .log(
            given.lines(
                READY,
                f"[2026-01-01 00:00:00 TP{rank}] Scheduler hit an exception: Traceback (most recent call last):",
                '  File "/opt/sglang/innocent.py", line 3, in last_frame',
                "RuntimeError: vectorized gather kernel index out of bounds",
                "CUDA error: device-side assert triggered",
            )
        )
    )
    (incident,) = watch.shown.incidents
    assert (incident.cause, incident.rank) == ("device_assert", f"TP{rank}")
    assert "late" in incident.note
    assert "innocent" not in incident.note


def test_k1_30(given: Given) -> None:
    """Xid 31 by PCI address: which GPU, and whether one GPU or one profile fails again and again."""
    bad = given.rank(4)
    one_gpu = Watch().gpus(eight())
    for profile in ("a", "b"):
        one_gpu.running(profile, {"x": profile}, {"x": "s"}).systemd(STARTED).log(given.lines(READY)).later(700)
        one_gpu.kernel(f"NVRM: Xid (PCI:0000:{0x1B + bad:02x}:00): 31, pid=77, name=python3, MMU Fault").later(700)
    shown = one_gpu.shown.incidents
    assert [(one.cause, one.gpu, one.profile) for one in shown] == [("xid_app", bad, "a"), ("xid_app", bad, "b")]
    assert f"GPU {bad} alone has failed under a and b: suspect the GPU" in shown[-1].note
    assert "suspect" not in shown[0].note
    one_profile = Watch().gpus(eight())
    gpus = sorted((given.rank(1), given.rank(6)))
    for gpu in gpus:
        one_profile.running("a", {}, {}).systemd(STARTED).log(given.lines(READY)).later(700)
        one_profile.kernel(f"NVRM: Xid (PCI:0000:{0x1B + gpu:02x}:00): 31, pid=77, name=python3, MMU Fault").later(700)
    assert f"a has failed on GPUs {gpus[0]} and {gpus[1]}: suspect the profile" in one_profile.shown.incidents[-1].note


def test_k1_31(given: Given) -> None:
    """The trace of a logging error inside the handler is not the cause."""
    rank = given.rank(0)
    watch = (
        Watch()
        .systemd(STARTED)
        .log(
            given.lines(
                READY,
                f"[2026-01-01 00:00:00 TP{rank}] Scheduler hit an exception: Traceback (most recent call last):",
                "IndexError: list index out of range",
                "[2026-01-01 00:00:00] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
                "--- Logging error ---",
                "Traceback (most recent call last):",
                "ValueError: I/O operation on closed file.",
            )
        )
    )
    (incident,) = watch.shown.incidents
    texts = [line.text for line in incident.evidence]
    assert any("IndexError" in text for text in texts[:2])
    assert not any("ValueError" in text for text in texts)
