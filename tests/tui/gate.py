"""A door in front of a host's SSH port that can be shut: connections through it break, and new ones are refused."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ddtune.config.model import HostConfig


class Gate:
    """``config`` reaches the host through it."""

    def __init__(self, host: HostConfig, folder: Path) -> None:
        self._behind = ("127.0.0.1", host.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[socket.socket] = []
        self._is_open = True
        port = self._listener.getsockname()[1]
        known = folder / "known_hosts"
        assert host.known_hosts is not None
        known.write_text(host.known_hosts.read_text().replace(f":{host.port} ", f":{port} "))
        self.config = replace(host, port=port, known_hosts=known)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self.shut()

    def shut(self) -> None:
        """Break what goes through and let nothing new in."""
        self._is_open = False
        for one in self._pairs:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._pairs.clear()

    def open(self) -> None:
        """Let new connections in."""
        self._is_open = True

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if not self._is_open:
                    near.close()
                    continue
                far = socket.create_connection(self._behind)
                self._pairs += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
