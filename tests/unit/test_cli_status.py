"""What ``ddtune status`` prints of a host that the test makes itself."""

from __future__ import annotations

import json

from ddtune.cli.status_text import status_text
from ddtune.live.status import status_json
from tests.unit.cases.given import READY, STARTED, Watch, eight

FLOOD = "[2026-01-01 00:00:00] WARNING: Received output for rid='{}' but the state was deleted in TokenizerManager."


def test_gauges_that_are_held_while_idle_are_named_and_the_source_is_told() -> None:
    watch = Watch().unit(schedulers=8).ready()
    busy = "sglang:num_running_reqs 3\nsglang:gen_throughput 300\nsglang:spec_accept_length 4.5\n"
    idle = busy.replace("reqs 3", "reqs 0") + "sglang:cache_hit_rate 0.5\n"
    watch.metrics(busy).later(1).metrics(busy)
    assert "accept length 4.50 (by its gauge)  running 3" in status_text(watch.shown)
    for _ in range(60):
        watch.later(1).metrics(idle)
    text = status_text(watch.shown)
    assert "tok/s 0  accept length —  running 0" in text
    assert "as it was before the engine was idle: cache hit 0.50" in text
    assert status_json(watch.shown)["service"]["frozen"] == ("cache_hit",)


def test_the_word_for_health_comes_with_its_reason() -> None:
    watch = Watch().systemd(STARTED).log([READY]).unit(schedulers=8).ready().unit(schedulers=7).later(1)
    assert "dead: 7 of 8 scheduler processes live  schedulers 7 of 8" in status_text(watch.shown)
    assert status_json(watch.shown)["service"]["health_why"] == "7 of 8 scheduler processes live"


def test_alarms_come_first_and_once() -> None:
    gpus = eight(power_w=400.0, tensor_util=12.0, throttle=4, mig=True, memory_used_mib=2048.0)
    watch = Watch().gpus([*gpus[:7], {**gpus[7], "lost": True}], [gpu["pci"].lower()[4:] for gpu in gpus])
    text = status_text(watch.shown)
    assert text.startswith("ALARM: 7 of 8 GPUs answer: GPU 7 (")
    assert text.count("7 of 8 GPUs answer") == 1
    assert "  power_cap" in text
    assert "  MIG" in text
    assert "  LOST" in text
    assert status_json(watch.shown)["alarms"][0]["blocks"] is True


def test_a_flood_is_one_line_and_a_trace_is_folded() -> None:
    watch = Watch().systemd(STARTED).log([READY])
    watch.log([FLOOD.format(number) for number in range(40)])
    watch.log(
        [
            "[2026-01-01 00:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):",
            '  File "/opt/a.py", line 9, in replay',
            "    raise ValueError",
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        ]
    )
    text = status_text(watch.shown)
    assert "38 × " in text
    assert "lines of a trace)" in text
    assert "incident: illegal_memory_access (TP3" in text
    told = status_json(watch.shown)["log"]
    json.dumps(told, allow_nan=False)
    assert [line["count"] for line in told if "state was deleted" in line["text"]] == [1, 1, 38]
    assert any(line["folded"] for line in told)


def test_without_any_reading_nothing_is_invented() -> None:
    text = status_text(Watch().shown)
    assert "no GPU reading" in text
    assert "tok/s —  accept length —  running —  queued —" in text
