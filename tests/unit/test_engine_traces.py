from __future__ import annotations

from ddtune.engine.incidents import classify
from ddtune.engine.log import parse
from ddtune.engine.model import LogLine
from ddtune.engine.traces import appended, shape

KEPT = 50


def shown(lines: list[LogLine]) -> list[LogLine]:
    log: tuple[LogLine, ...] = ()
    for line in lines:
        log = appended(log, line, KEPT)
    return list(log)


def test_traces_of_two_ranks_that_write_at_once_are_kept_apart_by_their_process() -> None:
    texts = [
        (11, "[2026-01-01 00:00:00 TP2] Scheduler hit an exception: Traceback (most recent call last):"),
        (12, "[2026-01-01 00:00:00 TP5] Scheduler hit an exception: Traceback (most recent call last):"),
        (12, '  File "/opt/sglang/scheduler.py", line 1, in event_loop'),
        (11, '  File "/opt/sglang/cuda_graph_runner.py", line 9, in replay'),
        (11, "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"),
        (12, "RuntimeError: [gloo/transport/tcp/pair.cc] Connection closed by peer"),
    ]
    lines = [parse(text, at=place * 0.01, pid=pid) for place, (pid, text) in enumerate(texts)]
    found = classify(lines)
    assert found is not None
    assert (found.cause, found.rank) == ("illegal_memory_access", "TP2")
    assert found.note.startswith("in a CUDA graph's replay")
    (first, second, *rest) = shown(lines)
    assert [(first.rank, first.folded), (second.rank, second.folded)] == [("TP2", 1), ("TP5", 1)]
    assert [line.text.partition(":")[0] for line in rest] == ["torch.AcceleratorError", "RuntimeError"]


def test_a_flood_is_one_counted_line_and_other_lines_stay() -> None:
    lines = [parse(f"Received output for rid='{n:032x}' but the state was deleted.", pid=1) for n in range(40)]
    lines.insert(20, parse("something else", pid=1))
    log = shown(lines)
    assert sum(line.count for line in log) == 41
    assert len(log) == 4
    assert "something else" in [line.text for line in log]


def test_batches_and_faults_are_never_counted_together() -> None:
    decode = parse("[2026-01-01 00:00:00 TP0] Decode batch, #running-req: 1, #queue-req: 0")
    fatal = parse("RuntimeError: CUDA error: an illegal memory access was encountered")
    assert len(shown([decode] * 6 + [fatal] * 6)) == 12


def test_what_varies_has_no_shape() -> None:
    assert shape("pid 12 at 0x7f00 for 3.5 s") == shape("pid 99999 at 0xdeadbeef for 12.25 s")
    assert shape("one") != shape("two")
