"""Health that is asked for by generating (K1-14 of the field cases): who asks, and how often at once."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections import Counter
from collections.abc import Iterator

from ddtune.onhost import load
from ddtune.onhost.collect_api import Api, Info, Key
from tests.unit.cases.given import Given
from tests.unit.http_server import running

GENERATES = ("/health", "/health_generate", "/generate")


class Server(http.server.ThreadingHTTPServer):
    """An engine whose health never answers; it counts what is in flight, by path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.taken = threading.Event()
        self.over = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        server, path = self.server, self.path.partition("?")[0]
        with server.lock:
            server.now[path] += 1
            server.most[path] = max(server.most[path], server.now[path])
        if path in GENERATES:
            server.taken.set()
            server.over.wait(60)
        body = b"sglang:num_running_reqs 5\n" if path == "/metrics" else b"{}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        # No longer in flight once the client may have it: the next one's request would be counted beside it.
        with server.lock:
            server.now[path] -= 1
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        return


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    with running(server, server.over.set):
        yield server


def test_k1_14(given: Given) -> None:
    """Two dashboards never ask for a generation, and of two who send probes one is told that the other does."""
    ticks = given.number(20, 12, 30)
    with serving() as server:
        port = server.server_address[1]
        key = Key(None, lambda: ("x",), lambda _text: None)
        seen: list[int] = []

        def watch() -> None:
            api, info = Api(port, key, lambda _text: None), Info(port, key, lambda: True, lambda: "run")
            seen.extend(bool(api.lines()) + len(info.lines()) for _ in range(ticks))
            api.close()

        threads = [threading.Thread(target=watch) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(seen) == 2 * ticks
        assert all(seen)
        assert 1 <= server.most["/metrics"] <= 2
        assert not any(server.most[path] for path in GENERATES), server.most

        probe = {"id": "p", "path": "/generate", "body": {"text": "x"}}
        request = {"api_port": port, "requests": [probe] * given.number(5, 2, 9), "concurrency": 1, "deadline_s": 30}
        first = threading.Thread(target=load.run, args=(request,))
        first.start()
        assert server.taken.wait(10)
        assert all(load.run(request) == {"busy": True} for _ in range(given.number(5, 2, 9)))
        assert server.most["/generate"] == 1
        server.over.set()
        first.join()
