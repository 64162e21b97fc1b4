"""Metrics and the engine's account of itself (kind K3 of the field cases): what comes in, and what is shown."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator

from ddtune.engine.metrics import parse
from ddtune.engine.server_info import read_server_info
from ddtune.live.status import status_json
from ddtune.onhost.collect_api import Api, Info, Key, chosen
from tests.unit.cases.given import Given, Watch
from tests.unit.engine_samples import filtered
from tests.unit.engine_samples import text as sample

Answer = Callable[[str], "tuple[int, bytes] | None"]


@contextlib.contextmanager
def server(answer: Answer) -> Iterator[int]:
    """An engine's API on loopback; where ``answer`` is None it never answers."""
    over = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = answer(self.path.partition("?")[0])
            if found is None:
                over.wait(20)
                return
            self.send_response(found[0])
            self.send_header("Content-Length", str(len(found[1])))
            self.end_headers()
            self.wfile.write(found[1])

        def log_message(self, *_words: object) -> None:
            return

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield made.server_address[1]
    finally:
        over.set()
        made.shutdown()
        made.server_close()


def key() -> Key:
    return Key(None, lambda: ("x",), lambda _text: None)


def load(running: int, tokens: float, **gauges: float) -> str:
    lines = [f"sglang:num_running_reqs {running}", f'sglang:realtime_tokens_total{{mode="decode"}} {tokens}']
    return "\n".join([*lines, *(f"sglang:{name} {value}" for name, value in gauges.items())]) + "\n"


def test_k3_01(given: Given) -> None:
    """One NaN leaves its own value out and all others in."""
    good = "\n".join(f'sglang:num_running_reqs{{dp_rank="{rank}"}} {given.number(2, 1, 9)}' for rank in range(40))
    bad = ("NaN", "nan")[given.sibling]
    watch = Watch().metrics(f'{good}\nsglang:fwd_occupancy{{a="b"}} {bad}\nsglang:token_usage {bad}\n')
    service = watch.shown.service
    assert service.running is not None
    assert service.running >= 40
    assert service.kv_usage is None
    assert "NaN" not in json.dumps(status_json(watch.shown), allow_nan=False)


def test_k3_02(given: Given) -> None:
    """Both spellings are read; none of the names known is said, and is no zero."""
    running = given.number(7)
    for sign in ":_":
        watch = Watch().metrics(filtered(f"sglang{sign}num_running_reqs {running}\nsglang{sign}num_queue_reqs 2\n"))
        assert (watch.shown.service.running, watch.shown.service.queued) == (running, 2)
    watch = Watch().metrics(filtered(f"engine_requests {running}\n"), lines=given.number(40))
    assert watch.shown.service.running is None
    assert any("no name that ddtune knows" in note for note in watch.shown.notes)


def test_k3_03(given: Given) -> None:
    """Tensor-parallel ranks repeat each other, data-parallel ones add up; labels in any order and of any name."""
    value, ranks = given.number(800), given.number(4, 2, 8)
    labels = 'model_name="m",engine_type="unified"'
    tensor = [
        f'sglang:gen_throughput{{{labels},tp_rank="{rank}",pp_rank="0",moe_ep_rank="0"}} {value}.0'
        for rank in range(ranks)
    ]
    data = [
        f'sglang:gen_throughput{{novel="x",dp_rank="{rank}",tp_rank="0",{labels}}} {value}.0' for rank in range(ranks)
    ]
    given.rng.shuffle(tensor)
    running = "sglang:num_running_reqs 3\n"
    assert Watch().metrics(running + "\n".join(tensor)).shown.service.tokens_per_s == value
    assert Watch().metrics(running + "\n".join(data)).shown.service.tokens_per_s == value * ranks
    assert Watch().metrics(running + filtered("\n".join(tensor))).shown.service.tokens_per_s == value


def test_k3_05(given: Given) -> None:
    """Gauges that keep their last value while nothing runs: no speed, no length, and what is held is said to be."""
    held = given.number(812)
    watch = Watch()
    for _ in range(60):
        watch.later(1).metrics(load(0, 4000, gen_throughput=held, spec_accept_length=4.2, cache_hit_rate=0.5))
    service = watch.shown.service
    assert (service.tokens_per_s, service.accept_length, service.running) == (0.0, None, 0)
    assert service.frozen == ("cache_hit",)


def test_k3_06(given: Given) -> None:
    """Length decides, whatever the rate: 1.00 is no draft taken, 0.00 is no speculation, and no rate is shown."""
    shown = []
    for length, rate in ((4.4, 1.7), (1.0, 0.11), (1.0, 0.0), (0.0, 0.0)):
        text = load(given.number(4), 10, spec_accept_length=length, spec_accept_rate=rate)
        watch = Watch().metrics(text)
        shown.append(watch.shown.service.accept_length)
        assert "rate" not in json.dumps(status_json(watch.shown)["service"])
    assert shown == [4.4, 1.0, 1.0, None]


def test_k3_07(given: Given) -> None:
    """Metrics on and speculation off: the gauges are there and zero, and no length is shown."""
    text = load(given.number(4), 10, spec_accept_length=0.0, spec_accept_rate=0.0, spec_num_draft_tokens=0.0)
    watch = Watch().metrics(text).later(1).metrics(text)
    assert (watch.shown.service.accept_length, watch.shown.service.accept_source) == (None, None)
    assert not watch.shown.incidents


def test_k3_09(given: Given) -> None:
    """Four shapes of the engine's account; the other path after a 404; and never its key."""
    version, secret = f"0.5.{given.number(16)}", f"sk-{given.number(1234)}"
    state = {"speculative_algorithm": "DDTREE", "avg_spec_accept_length": 3.1, "api_key": secret}
    bodies = (
        {"version": version, **state},
        {"version": version, "internal_states": [state], "api_key": secret},
        {"version": version, "internal_states": []},
        {"version": version, "internal_states": [{"avg_spec_accept_length": None}]},
    )
    for body in bodies:
        info = read_server_info(chosen(body))
        assert info is not None
        assert info.version == version
        assert secret not in json.dumps(chosen(body))
    for path in ("/server_info", "/get_server_info"):
        told = json.dumps(bodies[1]).encode()
        with server(lambda asked, path=path, told=told: (200, told) if asked == path else (404, b"")) as port:
            (line,) = Info(port, key(), lambda: True, lambda: "run").lines()
        watch = Watch().take(line)
        assert watch.shown.service.engine_version == version
        assert secret not in repr(watch.state)


def test_k3_10(given: Given) -> None:
    """The mean since the start is never the present length; that comes from counters, the gauge or the log."""
    calls = given.number(400)
    body = {"version": "0.5.9", "internal_states": [{"avg_spec_accept_length": 3.10}]}
    watch = Watch().take({"t": "info", "run": "a", "body": body})
    assert watch.state.info is not None
    assert watch.shown.service.accept_length is None
    for at, (tokens, verified) in enumerate(((1000.0, 300.0), (1000.0 + 5 * calls, 300.0 + calls))):
        counters = {"generation_tokens_total": tokens, "spec_verify_calls_total": verified, "spec_num_draft_tokens": 8}
        watch.later(at).metrics(load(2, at, spec_accept_length=9.9, **counters))
    assert (watch.shown.service.accept_length, watch.shown.service.accept_source) == (5.0, "counters")
    gauge = Watch().metrics(load(2, 1, spec_accept_length=4.25)).shown.service
    assert (gauge.accept_length, gauge.accept_source) == (4.25, "gauge")
    decode = f"[2026-01-01 00:00:00 TP0] Decode batch, #running-req: {calls}, accept len: 3.75, #queue-req: 0"
    log = Watch().log(given.lines(decode), step_s=0).metrics(load(2, 1)).shown.service
    assert (log.accept_length, log.accept_source) == (3.75, "log")


def test_k3_12(given: Given) -> None:
    """What hangs before the first request costs its own limit, and the rest goes on."""
    hangs = {"/server_info", "/get_server_info", "/v1/loads", "/get_load"}
    text = b"sglang:num_running_reqs 0\n"

    def answer(path: str) -> tuple[int, bytes] | None:
        return None if path in hangs else (200, text if path == "/metrics" else b"")

    with server(answer) as port:
        api = Api(port, key(), lambda _text: None)
        begun = time.monotonic()
        lines = api.lines()
        assert time.monotonic() - begun < 4
        assert [(line["t"], line.get("port")) for line in lines] == [("metrics", None), ("ready", "open")]
        begun = time.monotonic()
        for _ in range(given.number(5, 3, 6)):
            assert [line["t"] for line in api.lines()][:1] == ["metrics"]
        assert time.monotonic() - begun < 1
        info = Info(port, key(), lambda: True, lambda: "run")
        begun = time.monotonic()
        assert info.lines() == []
        assert time.monotonic() - begun < 5
        api.close()


def test_k3_13(given: Given) -> None:
    """Quotes, braces, commas and spaces in a label, and labels that come by flag."""
    count, model = given.number(5), ('/models/a \\"b\\" {c}, d', '/m/x }y{ \\\\ ,=\\"z')[given.sibling]
    line = f'sglang:num_requests_total{{model_name="{model}",http_status="200"}} {count}.0\n'
    for text in (line, filtered(line)):
        assert parse(text).total("num_requests_total") == count
    other = f'sglang:num_requests_total{{model_name="{model}",http_status="500"}} 2.0\n'
    assert parse(filtered(line + other)).total("num_requests_total") == count + 2


def test_k3_15(given: Given) -> None:
    """A counter that went back is a restart: no negative speed and no spike."""
    before, after = given.number(1_200_000), given.number(350)
    watch = Watch().unit().metrics(load(2, before, generation_tokens_total=before)).later(1)
    watch.metrics(load(2, before + 300, generation_tokens_total=before + 300)).later(1)
    assert watch.shown.service.tokens_per_s == 300
    watch.metrics(load(2, after, generation_tokens_total=after))
    assert watch.shown.service.tokens_per_s is None
    watch.later(1).metrics(load(2, after + 50, generation_tokens_total=after + 50))
    speed = watch.shown.service.tokens_per_s
    assert speed is None or 0 <= speed <= 60
    watch.unit(InvocationID="b", MainPID="8")
    assert watch.shown.service.invocation == "b"


def test_k3_16(given: Given) -> None:
    """Short answers count their end: the length of an interval says where it is from, and its tokens are counted."""
    answers = given.number(10)
    counters = [
        {"generation_tokens_total": 0.0, "spec_verify_calls_total": 0.0},
        {"generation_tokens_total": 12.0 * answers, "spec_verify_calls_total": 2.0 * answers},
    ]
    watch = Watch()
    for at, found in enumerate(counters):
        watch.later(at).metrics(load(1, at, spec_num_draft_tokens=8, num_requests_total=at * answers, **found))
    assert (watch.shown.service.accept_length, watch.shown.service.accept_source) == (6.0, "counters")


def test_a_scrape_that_is_cut_off_is_left_out_and_not_a_restart() -> None:
    whole = sample("metrics-0.5.23-load.txt").encode()

    class Cut(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(whole)))
            self.end_headers()
            self.wfile.write(whole[: len(whole) // 2])

        def log_message(self, *_words: object) -> None:
            return

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cut)
    threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    said: list[str] = []
    lines = Api(made.server_address[1], key(), said.append).lines()
    made.shutdown()
    made.server_close()
    assert "metrics" not in [line["t"] for line in lines]
    assert any("cut off" in text for text in said)


def test_megabytes_of_metrics_are_sieved_on_the_host() -> None:
    noise = b"".join(b'sglang:something_else{le="%d",x="%d"} 1.0\n' % (n, n) for n in range(150_000))
    assert len(noise) > 6_000_000
    with server(lambda path: (200, noise + b"sglang:num_running_reqs 5\n" if path == "/metrics" else b"")) as port:
        lines = Api(port, key(), lambda _text: None).lines()
    metrics = next(line for line in lines if line["t"] == "metrics")
    assert metrics["text"] == "sglang:num_running_reqs 5\n"
    assert metrics["lines"] == 150_001


def test_without_metrics_the_log_says_what_the_engine_does() -> None:
    watch = Watch().unit().ready()
    for rank, speed in ((0, 100.5), (1, 200.25)):
        watch.later(1).log(
            [
                f"[2026-01-01 00:00:00 DP{rank} TP0] Decode batch, #running-req: 2, token usage: 0.0{rank + 1}, "
                f"accept len: 4.00, cuda graph: True, gen throughput (token/s): {speed}, #queue-req: 1"
            ],
            step_s=0,
        )
    service = watch.shown.service
    assert (service.running, service.queued, service.tokens_per_s, service.accept_length) == (4, 2, 300.75, 4.0)
    assert (service.graphs_in_use, service.accept_source, service.kv_usage) == (True, "log", 0.02)
    assert service.health == "serving"
    watch.later(100).unit().ready()
    assert watch.shown.service.health != "dead"


def test_get_load_stands_in_for_loads() -> None:
    body = json.dumps([{"num_reqs": 3, "num_waiting_reqs": 1, "num_tokens": 9}]).encode()

    def answer(path: str) -> tuple[int, bytes]:
        return (200, body if path == "/get_load" else b"") if path in ("/get_load", "/ready") else (404, b"")

    with server(answer) as port:
        api = Api(port, key(), lambda _text: None)
        watch = Watch()
        for line in api.lines():
            watch.take(line)
        api.close()
    assert (watch.shown.service.running, watch.shown.service.queued) == (3, 1)
