"""An engine is asked on 127.0.0.1, and on ::1 where it listens on IPv6 alone."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from ddtune.onhost import load
from ddtune.onhost.api import Api, ApiError
from ddtune.onhost.collect_http import Connection, NoAnswerError

BODY = json.dumps({"text": "Paris", "meta_info": {"completion_tokens": 1, "finish_reason": {"type": "stop"}}}).encode()


class _Six(ThreadingHTTPServer):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    do_GET = do_POST = _answer  # noqa: N815 (the server's own names)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def _served(kind: type[ThreadingHTTPServer], address: str, port: int = 0) -> Iterator[int]:
    with kind((address, port), _Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("kind", "address"), [(ThreadingHTTPServer, "127.0.0.1"), (_Six, "::1")])
def test_it_is_found_on_either(kind: type[ThreadingHTTPServer], address: str) -> None:
    with _served(kind, address) as port:
        assert Api(port).get("/server_info").body == BODY
        kept = Connection(port)
        assert [kept.get("/metrics", {}, 5) for _ in range(2)] == [(200, BODY)] * 2
        kept.close()
        asked = {"id": "1", "path": "/generate", "body": {"text": "x"}}
        order = {"api_port": port, "requests": [asked], "concurrency": 1, "timeout_s": 5, "deadline_s": 5}
        assert load.run(order)["answers"][0]["text"] == "Paris"


def test_where_nothing_listens_it_is_refused() -> None:
    with _served(_Six, "::1") as port:
        pass
    with pytest.raises(ApiError, match="nothing listens") as raised:
        Api(port).get("/ready")
    assert raised.value.kind == "refused"
    with pytest.raises(NoAnswerError) as silent:
        Connection(port).get("/ready", {}, 5)
    assert silent.value.port == "refused"
