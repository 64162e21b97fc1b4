"""What ``ddtune status`` prints of a host that the test makes itself."""

from __future__ import annotations

import json

from ddtune.cli.live import is_whole
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


COUNTED = (
    "sglang:num_running_reqs 14\nsglang:gen_throughput 0.0\nsglang:spec_accept_length 1.275\n"
    'sglang:realtime_tokens_total{{mode="decode"}} {tokens}\nsglang:generation_tokens_total {ended}\n'
    "sglang:spec_verify_calls_total {calls}\n"
)


def test_a_reading_is_whole_when_the_counters_have_spoken() -> None:
    watch = Watch().unit(schedulers=8).gpus(eight(power_w=400.0, dram_util=9.0))
    watch.log(["Decode batch, #running-req: 14, gen throughput (token/s): 9.00, #queue-req: 0"])
    assert not is_whole(watch.shown), "the log came first, and /metrics may still answer"
    watch.metrics(COUNTED.format(tokens=5000, ended=4000, calls=1000)).ready()
    assert not is_whole(watch.shown), "a gauge that is behind"
    watch.later(1).metrics(COUNTED.format(tokens=8800, ended=4000, calls=1000))
    assert watch.shown.service.tokens_per_s is not None
    assert not is_whole(watch.shown), "requests run, and none of them has told its length"
    watch.later(1).metrics(COUNTED.format(tokens=12600, ended=4427, calls=1100))
    assert is_whole(watch.shown)
    service = watch.shown.service
    assert (service.accept_length, service.accept_source) == (4.27, "counters")
    assert service.tokens_per_s is not None
    assert 3000 < service.tokens_per_s < 3900


def test_a_gauge_stands_where_there_are_no_counters_and_a_closed_port_is_not_waited_for() -> None:
    gauges = "sglang:num_running_reqs 3\nsglang:gen_throughput 300\nsglang:spec_accept_length 4.5\n"
    watch = Watch().unit(schedulers=8).gpus(eight(dram_util=9.0)).metrics(gauges)
    assert not is_whole(Watch().unit(schedulers=8).gpus(eight(dram_util=9.0)).shown)
    assert is_whole(watch.shown)
    assert watch.shown.service.accept_source == "gauge"
    assert is_whole(Watch().unit(schedulers=0, active="failed").gpus(eight(dram_util=9.0)).shown)
