"""A small HTTP server that answers from threads of this process while a test goes on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from typing import TypeVar

Server = TypeVar("Server", bound=ThreadingHTTPServer)


@contextlib.contextmanager
def running(server: Server, let_go: Callable[[], None]) -> Iterator[Server]:
    """Serve until the block ends; ``let_go`` then frees the handlers that wait."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        let_go()
        server.shutdown()
        thread.join()
        server.server_close()
