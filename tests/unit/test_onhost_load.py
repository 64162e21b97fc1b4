"""The load program against a small server in this process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ddtune.gate.model import Answer, Request
from ddtune.onhost import load
from tests.unit.http_server import running

ROOT = Path(__file__).parents[2]
GENERATED = {
    "text": "a b",
    "output_ids": [5, 6],
    "meta_info": {
        "finish_reason": {"type": "stop"},
        "completion_tokens": 2,
        "spec_verify_ct": 1,
        "spec_accept_length": 2.0,
    },
}
CHAT = {
    "object": "chat.completion",
    "choices": [{"message": {"content": "Paris.", "reasoning_content": "France."}, "finish_reason": "stop"}],
    "usage": {"completion_tokens": 8},
}
DRIP = {"choices": [{"delta": {"content": "."}, "finish_reason": None}]}
BEGUN = [
    {"choices": [{"delta": {"role": "assistant", "content": "", "reasoning_content": "Fra"}, "finish_reason": None}]},
    {"choices": [{"delta": {"reasoning_content": "nce."}}]},
    {"choices": [{"delta": {"content": "Par"}, "finish_reason": None}]},
]
STREAMS: dict[str, list[Any]] = {
    "stream": [
        *BEGUN,
        {"choices": [{"delta": {"content": "is.", "reasoning_content": None}, "finish_reason": None}]},
        {"choices": [{"delta": {"reasoning_content": None}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"completion_tokens": 8}},
        "[DONE]",
    ],
    "stream error": [*BEGUN, {"error": {"message": "scheduler\n died", "code": 500}}, "[DONE]"],
    "stream broken": BEGUN,
    "stream odd": [*BEGUN, "{", "[DONE]"],
    "stream drips": [DRIP] * 400,
}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.running = 0
        self.most = 0
        self.seen: list[tuple[str, str | None]] = []
        self.free = threading.Event()
        self.guard = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.guard:
            server.running += 1
            server.most = max(server.most, server.running)
            server.seen.append((self.path, self.headers.get("Authorization")))
        try:
            self.answer(body)
        finally:
            with server.guard:
                server.running -= 1

    def answer(self, body: dict[str, Any]) -> None:
        do = body.get("do", "generate")
        if do == "drop":
            self.close_connection = True
            self.connection.close()
            return
        if do == "wait":
            self.server.free.wait(20)
        if do == "gather":
            deadline = time.monotonic() + 5
            while self.server.most < body["until"] and time.monotonic() < deadline:
                self.server.free.wait(0.01)
        answers: dict[str, tuple[int, Any]] = {
            "chat": (200, CHAT),
            "error": (200, {"error": {"message": "scheduler\n died"}}),
            "object error": (200, {"object": "error", "message": "bad"}),
            "abort": (200, {**GENERATED, "meta_info": {"finish_reason": {"type": "abort", "message": "asked"}}}),
            "400": (400, {"object": "error", "message": "too long"}),
            "nothing": (200, {"x": 1}),
            "text": (200, "plain"),
        }
        if do in STREAMS:
            self.stream(STREAMS[do])
            return
        status, answer = answers.get(do, (200, GENERATED))
        raw = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def stream(self, events: list[Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.end_headers()
        for event in events:
            said = event if isinstance(event, str) else json.dumps(event)
            with suppress(OSError):
                self.wfile.write(f"data: {said}\n\n".encode())
            if event is DRIP and self.server.free.wait(0.05):
                return

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    with running(server, server.free.set):
        yield server


def ask(server: Server, *does: str, **more: Any) -> list[Answer]:
    fields = {**more}
    extra = fields.pop("body", {})
    requests = [Request(str(n), "/generate", {"do": do, **extra}).to_dict() for n, do in enumerate(does)]
    answer = load.run({"requests": requests, "api_port": server.server_address[1], "root": "", **fields})
    return [Answer.from_dict(one) for one in answer["answers"]]


def test_answers_carry_what_the_gate_reads() -> None:
    with serving() as server:
        one, two = ask(server, "generate", "chat", api_key="k")
        assert (one.text, one.token_ids, one.completion_tokens, one.verify_calls, one.accept_length) == (
            "a b", (5, 6), 2, 1, 2.0,
        )  # fmt: skip
        assert (two.text, two.reasoning, two.finish_reason, two.verify_calls) == ("Paris.", "France.", "stop", None)
        assert one.status == two.status == 200
        assert {key for _, key in server.seen} == {"Bearer k"}


def test_a_stream_is_the_answer_that_its_parts_make() -> None:
    with serving() as server:
        (answer,) = ask(server, "stream")
    assert (answer.text, answer.reasoning, answer.finish_reason) == ("Paris.", "France.", "stop")
    assert (answer.completion_tokens, answer.error) == (8, None)


def test_a_real_stream_is_read() -> None:
    raw = (ROOT / "tests/contract/samples/0.5.23/chat_stream.body").read_bytes()
    answer = Answer.from_dict({"id": "a", **load.read_answer(200, raw)})
    assert answer.text == "reg monthpaths00abletypelary"
    assert (answer.finish_reason, answer.completion_tokens, answer.error) == ("length", 8, None)


def test_a_stream_that_drips_ends_at_its_limit() -> None:
    with serving() as server:
        request = {"id": "a", "path": "/v1/chat/completions", "body": {"do": "stream drips"}, "timeout_s": 0.4}
        (answer,) = load.run({"requests": [request], "api_port": server.server_address[1], "root": ""})["answers"]
    assert answer["error_kind"] == "timeout"
    assert answer["seconds"] < 10


@pytest.mark.parametrize(
    ("do", "kind", "text"),
    [
        ("error", "body", "scheduler died"),
        ("object error", "body", "bad"),
        ("abort", "aborted", "asked"),
        ("400", "http", "too long"),
        ("nothing", "body", "no completion"),
        ("stream error", "body", "scheduler died"),
        ("stream broken", "body", "broke off"),
        ("stream odd", "body", "not a JSON object"),
        ("text", "body", "not a JSON object"),
        ("drop", "connection", "lost"),
    ],
)
def test_each_kind_of_failure_is_told_apart(do: str, kind: str, text: str) -> None:
    with serving() as server:
        (answer,) = ask(server, do)
    assert answer.error_kind == kind
    assert text in str(answer.error)


def test_nobody_listening_is_a_lost_connection() -> None:
    with serving() as server:
        port = server.server_address[1]
    answer = load.run({"requests": [{"id": "a", "path": "/generate", "body": {}}], "api_port": port})
    assert answer["answers"][0]["error_kind"] == "connection"


def test_concurrency_is_reached_and_not_passed() -> None:
    with serving() as server:
        answers = ask(server, *["gather"] * 24, concurrency=8, body={"until": 8})
        assert server.most == 8
    assert all(answer.error is None for answer in answers)
    assert [answer.id for answer in answers] == [str(n) for n in range(24)]


def test_the_deadline_cuts_what_is_not_done_and_keeps_the_rest() -> None:
    with serving() as server:
        begun = time.monotonic()
        answers = ask(server, "generate", "wait", "generate", concurrency=1, deadline_s=0.5)
        assert time.monotonic() - begun < 3
    assert [answer.error_kind for answer in answers] == [None, "cut", "cut"]


def test_a_request_has_its_own_limit() -> None:
    with serving() as server:
        fields = {"requests": [{"id": "a", "path": "/g", "body": {"do": "wait"}, "timeout_s": 0.3}], "deadline_s": 20}
        (answer,) = load.run({**fields, "api_port": server.server_address[1]})["answers"]
    assert answer["error_kind"] == "timeout"


def test_stop_on_error_sends_nothing_more() -> None:
    with serving() as server:
        answers = ask(server, "generate", "400", "generate", "generate", stop_on_error=True)
        assert len(server.seen) == 2
    assert [answer.error_kind for answer in answers] == [None, "http", "not_sent", "not_sent"]


def test_one_load_at_a_time_on_a_host_and_another_port_is_free() -> None:
    with serving() as server, serving() as other:
        first: list[Answer] = []
        thread = threading.Thread(target=lambda: first.extend(ask(server, "wait")))
        thread.start()
        deadline = time.monotonic() + 5
        while not server.seen and time.monotonic() < deadline:
            time.sleep(0.005)
        request = {"requests": [], "api_port": server.server_address[1], "root": ""}
        assert load.run(request) == {"busy": True}
        assert "answers" in load.run({**request, "root": "/elsewhere"})
        assert ask(other, "generate")[0].error is None
        server.free.set()
        thread.join(5)
        assert first[0].error is None
        assert "answers" in load.run(request)


def test_as_a_program_it_reads_and_writes_json() -> None:
    with serving() as server:
        request = {"requests": [{"id": "a", "path": "/g", "body": {}}], "api_port": server.server_address[1]}
        done = subprocess.run(
            [sys.executable, "-c", "from ddtune.onhost.load import main; main()"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
            cwd=ROOT,
        )
    assert json.loads(done.stdout)["answers"][0]["text"] == "a b"
