"""A healthy engine over HTTP, in its own process."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ddtune.sim.engine.info import VERSION
from ddtune.sim.engine.launch import launch
from ddtune.sim.engine.settings import Settings
from ddtune.sim.engine.startup import READY_S, WARMUP_S, timetable

Start = Callable[..., Any]


def test_a_start_takes_150_seconds_and_refuses_connections_until_shortly_before() -> None:
    argv = [
        "--model-path",
        "/m",
        "--tp-size",
        "8",
        "--speculative-algorithm",
        "DDTREE",
        "--max-running-requests",
        "128",
    ]
    steps = list(timetable(launch([*argv, "--speculative-draft-model-path", "/d"], Settings())))
    assert [step.at for step in steps] == sorted(step.at for step in steps)
    http_up = steps[-1]
    assert http_up.mark == "http"
    assert http_up.at + WARMUP_S + READY_S == pytest.approx(150, abs=1)
    assert 1 <= 150 - http_up.at <= 4
    eager = list(timetable(launch(["--model-path", "/m", "--disable-cuda-graph"], Settings())))
    assert eager[-1].at < 115


def test_start_phases_in_order(start: Start) -> None:
    began = time.monotonic()
    engine = start(8, warm=False, speed=60)
    engine.until(lambda: _accepts(engine.port), "an open port")
    opened = time.monotonic() - began
    engine.ready()
    assert opened * 60 >= 140
    assert (time.monotonic() - began) * 60 >= 149
    at = [
        engine.log.index(line)
        for line in (
            "server_args={",
            "Init torch distributed begin.",
            "Load weight begin. avail mem=",
            "Multi-thread loading shards:  50% Completed | 32/64",
            "Load weight end. elapsed=",
            "KV Cache is allocated.",
            "Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=9, bs=[1, 2,",
            "Capture target verify CUDA graph end.",
            "Capture draft decode CUDA graph begin.",
            "max_total_num_tokens=",
            "INFO:     Uvicorn running on http://127.0.0.1:",
            "The server is fired up and ready to roll!",
        )
    ]
    assert at == sorted(at)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 0.2).close()
    except OSError:
        return False
    return True


def test_without_graphs_nothing_is_captured_and_passes_are_eager(start: Start) -> None:
    engine = start(16, "--disable-cuda-graph").ready()
    answer = engine.generate("Describe a mountain", 64, ignore_eos=True)
    assert answer["meta_info"]["spec_accept_length"] == pytest.approx(5.8, rel=0.15)
    assert "Capturing" not in engine.log
    assert engine.metric("cuda_graph_passes_total", mode="decode_none") > 5
    assert engine.metric("cuda_graph_passes_total", mode="decode_cuda_graph") == 0


def test_eight_schedulers_bear_the_real_names(start: Start) -> None:
    engine = start().ready()
    names = {Path(f"/proc/{child}/cmdline").read_text().rstrip("\0") for child in engine.schedulers()}
    assert names == {f"sglang::scheduler_TP{rank}" for rank in range(8)}


@pytest.mark.parametrize(("concurrency", "expected"), [(1, 303), (16, 2516), (128, 4723)])
def test_measured_speed_is_the_models(start: Start, concurrency: int, expected: float) -> None:
    engine = start(speed=20).ready()
    engine.call("/pause_generation", {"mode": "in_place"})
    with ThreadPoolExecutor(concurrency) as pool:
        asked = [pool.submit(engine.generate, f"Story {number}", 300, ignore_eos=True) for number in range(concurrency)]
        engine.until(lambda: _running(engine) == concurrency, "all requests")
        engine.call("/continue_generation", {})
        answers = [one.result(20) for one in asked]
    speed = sum(answer["meta_info"]["decode_throughput"] for answer in answers)
    assert speed == pytest.approx(expected, rel=0.05)
    assert all(answer["meta_info"]["completion_tokens"] == 300 for answer in answers)


def _running(engine: Any) -> int:
    return int(json.loads(engine.call("/v1/loads")[1])["loads"][0]["num_running_reqs"])


def test_counters_and_histograms_follow_the_requests(start: Start) -> None:
    engine = start().ready()
    before = engine.metric("generation_tokens_total")
    made = [engine.generate(f"Poem {number}", 100, ignore_eos=True) for number in range(5)]
    assert engine.metric("generation_tokens_total") - before == 500
    verify = sum(answer["meta_info"]["spec_verify_ct"] for answer in made)
    assert 500 / verify == pytest.approx(4.48, rel=0.06)
    assert engine.metric("num_requests_total") == 6
    assert engine.metric("e2e_request_latency_seconds_count") == 6
    assert engine.metric("time_to_first_token_seconds_count") == 6


def test_no_speculation_shows_no_speculative_fields(start: Start) -> None:
    engine = start(None).ready()
    answer = engine.generate("Describe a lake", 40, ignore_eos=True)
    assert not [name for name in answer["meta_info"] if name.startswith("spec_")]
    assert engine.metric("spec_accept_length") == 0
    loads = json.loads(engine.call("/v1/loads")[1])["loads"][0]
    assert "speculative" not in loads


def test_a_stop_string_ends_the_text_before_it(start: Start) -> None:
    engine = start().ready()
    prompt = "Text: one two\nRepeated: one two\n\nText: A b, c 7.\nRepeated:"
    answer = engine.generate(prompt, 40, stop=["\n", "zzz"])
    assert answer["text"] == " A b, c 7."
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": "\n"}


def test_a_body_that_breaks_a_route_costs_one_connection_only(start: Start) -> None:
    engine = start().ready()
    broken = {"text": "x", "sampling_params": {"temperature": []}}
    with pytest.raises((OSError, http.client.HTTPException)):
        engine.call("/generate", broken)
    assert engine.generate("x", 4)["meta_info"]["completion_tokens"] == 4


def test_routes_that_are_not_there(start: Start) -> None:
    engine = start().ready()
    assert engine.status("/get_load") == 404
    assert engine.call("/ready", method="POST")[0] == 405


def test_metrics_are_not_found_without_their_flag(start: Start) -> None:
    engine = start(metrics=False).ready()
    assert engine.status("/metrics") == 404
    assert "queue_time" not in engine.generate("x")["meta_info"]


def test_the_same_seed_gives_the_same_answers(start: Start) -> None:
    one, two = start().ready(), start().ready()
    for prompt in ("Describe a lake", "What is the capital of France?"):
        assert one.generate(prompt, 80)["output_ids"] == two.generate(prompt, 80)["output_ids"]


def test_streams_grow_and_end(start: Start) -> None:
    engine = start(speed=4).ready()
    sampling = {"max_new_tokens": 300, "temperature": 0, "ignore_eos": True}
    body = {"text": "Describe a lake", "stream": True, "sampling_params": sampling}
    raw = engine.call("/generate", body)[1].decode()
    events = [line.removeprefix("data: ") for line in raw.splitlines() if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    lengths = [len(chunk["output_ids"]) for chunk in chunks]
    assert lengths == sorted(lengths)
    assert lengths[-1] == 300
    assert len(chunks) > 3
    assert chunks[0]["meta_info"]["finish_reason"] is None
    assert chunks[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 300}
    assert all(later["text"].startswith(earlier["text"]) for earlier, later in pairwise(chunks))


def test_chat_streams_and_counts(start: Start) -> None:
    engine = start().ready()
    body = {"model": "m", "messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 30}
    whole = json.loads(engine.call("/v1/chat/completions", body)[1])
    assert whole["choices"][0]["message"]["content"] == "The capital of France is Paris."
    assert whole["choices"][0]["finish_reason"] == "stop"
    raw = engine.call("/v1/chat/completions", {**body, "stream": True})[1].decode()
    parts = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {")]
    text = "".join(part["choices"][0]["delta"].get("content") or "" for part in parts)
    assert text == "The capital of France is Paris."
    assert parts[-1]["choices"][0]["finish_reason"] == "stop"


def test_thoughts_are_parsed_out_unless_turned_off(start: Start) -> None:
    engine = start(8, "--reasoning-parser", "kimi_k2").ready()
    body = {"messages": [{"role": "user", "content": "What is the capital of France?"}]}
    thinking = json.loads(engine.call("/v1/chat/completions", body)[1])["choices"][0]["message"]
    assert thinking["reasoning_content"]
    assert thinking["content"] == "The capital of France is Paris."
    off = {**body, "chat_template_kwargs": {"thinking": False}}
    assert json.loads(engine.call("/v1/chat/completions", off)[1])["choices"][0]["message"]["reasoning_content"] is None


def test_log_probabilities_are_refused_by_the_tree_alone(start: Start) -> None:
    body = {"text": "x", "return_logprob": True, "sampling_params": {"max_new_tokens": 4}}
    status, text = start(8).ready().call("/generate", body)
    assert status == 400
    assert "return_logprob" in json.loads(text)["error"]["message"]
    answer = json.loads(start(None).ready().call("/generate", body)[1])
    assert len(answer["meta_info"]["output_token_logprobs"]) == 4


def test_server_info_shows_what_the_flags_resolve_to_and_the_keys(start: Start) -> None:
    """SGLang 0.5.23 hides no key of theirs: not here, not in the launch command, not in their log."""
    engine = start(12, "--disable-cuda-graph", "--api-key", "sesame", "--admin-api-key", "poppy").ready()
    status, body = engine.call("/server_info", Authorization="Bearer sesame")
    shown = json.loads(body)
    assert status == 200
    assert engine.call("/server_info")[0] == 401
    assert shown["version"] == VERSION
    assert shown["speculative_num_draft_tokens"] == 13
    assert shown["internal_states"][0]["effective_max_running_requests_per_dp"] == 128
    for one in (shown, shown["internal_states"][0]):
        assert (one["api_key"], one["admin_api_key"]) == ("sesame", "poppy")
    assert "--api-key sesame" in shown["launch_command"]


def test_pause_holds_everything_and_continue_lets_go(start: Start) -> None:
    engine = start(speed=10).ready()
    assert engine.call("/pause_generation", {"mode": "in_place"})[0] == 200
    assert engine.status("/ready") == 503
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(engine.generate, "Describe a lake", 20)
        engine.until(lambda: _running(engine) == 1, "the request")
        assert not waiting.done()
        engine.call("/continue_generation", {})
        assert waiting.result(10)["meta_info"]["completion_tokens"] == 20
    assert engine.status("/ready") == 200


def test_abort_all_ends_what_runs_and_lost_clients_end_theirs(start: Start) -> None:
    engine = start(speed=1).ready()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(engine.generate, "Describe a lake", 3000, ignore_eos=True)
        engine.until(lambda: _running(engine) == 1, "the request")
        engine.call("/abort_request", {"abort_all": True})
        assert waiting.result(5)["meta_info"]["finish_reason"]["type"] == "abort"
    client = http.client.HTTPConnection("127.0.0.1", engine.port)
    body = {"text": "x", "sampling_params": {"max_new_tokens": 4000, "ignore_eos": True}}
    client.request("POST", "/generate", json.dumps(body))
    engine.until(lambda: _running(engine) == 1, "the second request")
    client.close()
    engine.until(lambda: _running(engine) == 0, "the end of a request that nobody waits for")


def test_flush_is_refused_while_requests_run(start: Start) -> None:
    engine = start(env={"DDTUNE_SIM_TRAFFIC": "6"}).ready()
    engine.until(lambda: engine.call("/flush_cache", {})[0] == 400, "a refused flush")


def test_cached_prompts_are_counted_until_a_flush(start: Start) -> None:
    engine = start().ready()
    prompt = "A prompt of some length that is asked twice."
    cached = [engine.generate(prompt, 4)["meta_info"]["cached_tokens"] for _ in range(2)]
    assert cached[0] == 0
    assert cached[1] > 5
    assert engine.call("/flush_cache", {})[0] == 200
    assert engine.generate(prompt, 4)["meta_info"]["cached_tokens"] == 0


def test_traffic_is_seen_and_leaves_on_stop(start: Start) -> None:
    engine = start(env={"DDTUNE_SIM_TRAFFIC": "6"}).ready()
    engine.until(lambda: engine.metric("num_running_reqs") >= 4, "running requests in the gauges")
    engine.until(lambda: engine.metric("generation_tokens_total", is_streaming="true") > 1000, "tokens")
    engine.said("Decode batch, #running-req: ")
    engine.process.send_signal(signal.SIGTERM)
    assert engine.ended() == -9


def test_health_generates_a_token_and_takes_a_tick(start: Start) -> None:
    engine = start(speed=10).ready()
    began = time.monotonic()
    assert engine.status("/health", timeout=5) == 200
    assert (time.monotonic() - began) * 10 >= 1.0


def test_idle_and_busy_engines_cost_next_to_nothing(start: Start) -> None:
    engine = start(speed=10, env={"DDTUNE_SIM_TRAFFIC": "24"}).ready()
    begun = _cpu_s(engine.process.pid)
    assert begun < 0.6
    time.sleep(2.0)
    assert _cpu_s(engine.process.pid) - begun < 0.2


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
